// A prefix that is exported and imported continues as if it had been computed here; every damaged
// or foreign stream is refused and leaves nothing behind.
#include "kv/kv_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "kv_fake_pool.h"

namespace slipstream::kv {
namespace {

GroupSpec Sized(GroupSpec spec, int64_t bytes) {
  spec.bytes_per_block = bytes;
  return spec;
}

/// Blocks of bytes that begin with what a test writes into them.
class BytePool : public BlockStore {
 public:
  BytePool(const std::vector<GroupSpec>& groups, int64_t blocks) {
    for (const GroupSpec& group : groups)
      blocks_.emplace_back(blocks, std::vector<std::byte>(group.bytes_per_block));
  }
  Status Copy(std::span<const core::BlockCopy> copies) override {
    for (const auto& copy : copies)
      blocks_[copy.group][copy.target] = blocks_[copy.group][copy.source];
    return Status::Ok();
  }
  Status Read(int32_t group, int32_t block, std::span<std::byte> image) override {
    EXPECT_EQ(image.size(), blocks_[group][block].size());
    std::memcpy(image.data(), blocks_[group][block].data(), image.size());
    return Status::Ok();
  }
  Status Write(int32_t group, int32_t block, std::span<const std::byte> image) override {
    if (writes_left == 0) return Status(StatusCode::kIo, "told to fail");
    --writes_left;
    blocks_[group][block].assign(image.begin(), image.end());
    return Status::Ok();
  }
  std::vector<std::byte>& At(int32_t group, int32_t block) { return blocks_[group][block]; }

  int64_t writes_left = INT64_MAX;

 private:
  std::vector<std::vector<std::vector<std::byte>>> blocks_;
};

struct Side {
  explicit Side(std::vector<GroupSpec> groups = {Sized(Full(4), 24), Sized(Window(4, 6), 10)})
      : kv(groups, std::vector<int64_t>(groups.size(), 16), 2, 4), pool(groups, 16) {}

  /// Computes `tokens`, four positions a step; each block is filled with its tokens' low bytes.
  void Compute(int32_t slot, const std::vector<TokenId>& tokens) {
    const auto size = static_cast<int64_t>(tokens.size());
    ASSERT_EQ(*kv.Open(slot, {.cache_key = "k", .tokens = tokens, .total_tokens = 40}), 0);
    for (int64_t p = 0; p < size; p += 4) {
      const int64_t rows = std::min<int64_t>(4, size - p);
      ASSERT_TRUE(kv.Extend(slot, p, rows).ok());
      for (int32_t g = 0; g < kv.num_groups(); ++g) {
        for (int64_t i = p; i < p + rows; ++i)
          pool.At(g, kv.Table(slot, g)[i / 4])[i % 4] = static_cast<std::byte>(tokens[i]);
      }
      kv.Commit(slot, tokens, p + rows);
    }
  }

  void Check(int32_t slot, const std::vector<TokenId>& tokens) {
    const auto size = static_cast<int64_t>(tokens.size());
    for (int32_t g = 0; g < kv.num_groups(); ++g) {
      for (int64_t i = g == 0 ? 0 : size - 5; i < size; ++i) {
        ASSERT_GE(kv.Table(slot, g)[i / 4], 0);
        ASSERT_EQ(pool.At(g, kv.Table(slot, g)[i / 4])[i % 4], static_cast<std::byte>(tokens[i]));
      }
    }
  }

  KvManager kv;
  BytePool pool;
};

const ImageIdentity kIdentity{"build-1", {"bf16/a", "int8/b"}};
const OpenRequest kRequest{.cache_key = "k", .total_tokens = 40};

std::vector<TokenId> Tokens() {
  std::vector<TokenId> tokens(22);
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

std::vector<std::byte> Exported() {
  Side side;
  side.Compute(0, Tokens());
  auto image = ExportImage(side.kv, 0, Tokens(), 22, kIdentity, side.pool);
  EXPECT_TRUE(image.ok()) << image.status().message();
  return *std::move(image);
}

TEST(KvImageTest, AnImportedPrefixIsThereAndIsCached) {
  const std::vector<std::byte> image = Exported();
  Side other;
  EXPECT_EQ(*ReadImageTokens(other.kv, image, kIdentity), Tokens());
  const Result<int64_t> computed = ImportImage(other.kv, 1, kRequest, image, kIdentity, other.pool);
  ASSERT_TRUE(computed.ok()) << computed.status().message();
  EXPECT_EQ(*computed, 22);
  other.Check(1, Tokens());
  // The bytes that come out again are the same.
  EXPECT_EQ(*ExportImage(other.kv, 1, Tokens(), 22, kIdentity, other.pool), image);
  other.kv.Close(1, Tokens(), 22, true);
  std::vector<TokenId> longer = Tokens();
  longer.push_back(99);
  EXPECT_EQ(other.kv.Match("k", longer), 22);
  ASSERT_EQ(*other.kv.Open(0, {.cache_key = "k", .tokens = longer, .total_tokens = 40}), 22);
  ASSERT_TRUE(other.pool.Copy(other.kv.TakeCopies()).ok());
  other.Check(0, Tokens());
  other.kv.Close(0, longer, 22, true);
  other.kv.Reset();
  EXPECT_EQ(other.kv.free_blocks(), other.kv.total_blocks());
}

TEST(KvImageTest, ForeignStreamsAreRefused) {
  const std::vector<std::byte> image = Exported();
  Side side;
  const auto code = [&](const ImageIdentity& identity) {
    return ImportImage(side.kv, 0, kRequest, image, identity, side.pool).status().code();
  };
  EXPECT_EQ(code({"build-2", kIdentity.layouts}), StatusCode::kIncompatible);
  EXPECT_EQ(code({"build-1", {"bf16/a", "f32/b"}}), StatusCode::kIncompatible);
  Side coarse({Sized(Full(8), 24), Sized(Window(4, 6), 10)});
  EXPECT_EQ(ReadImageTokens(coarse.kv, image, kIdentity).status().code(),
            StatusCode::kIncompatible);
  Side fewer({Sized(Full(4), 24)});
  EXPECT_EQ(ReadImageTokens(fewer.kv, image, kIdentity).status().code(), StatusCode::kIncompatible);
  OpenRequest small = kRequest;
  small.total_tokens = 21;
  EXPECT_EQ(ImportImage(side.kv, 0, small, image, kIdentity, side.pool).status().code(),
            StatusCode::kLimitExceeded);
  EXPECT_FALSE(side.kv.is_open(0));
  EXPECT_EQ(side.kv.free_blocks(), side.kv.total_blocks());
}

TEST(KvImageTest, DamagedStreamsAreRefused) {
  const std::vector<std::byte> image = Exported();
  Side side;
  for (size_t size = 0; size < image.size(); ++size) {
    EXPECT_EQ(ReadImageTokens(side.kv, std::span(image).first(size), kIdentity).status().code(),
              StatusCode::kCorruptFile)
        << size;
  }
  for (size_t at = 0; at < image.size(); ++at) {
    std::vector<std::byte> changed = image;
    changed[at] ^= std::byte{0x41};
    EXPECT_FALSE(ReadImageTokens(side.kv, changed, kIdentity).ok()) << at;
  }
}

/// The checksum made right again, so that the checks behind it are reached.
void Seal(std::vector<std::byte>* image) {
  uint64_t hash = image->size() - 8;
  for (size_t at = 0; at < image->size() - 8; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, image->data() + at, std::min<size_t>(8, image->size() - 8 - at));
    hash = MixHash(hash, word);
  }
  std::memcpy(image->data() + image->size() - 8, &hash, 8);
}

TEST(KvImageTest, AbsurdSizesUnderARightChecksumAreRefused) {
  const std::vector<std::byte> image = Exported();
  std::vector<std::byte> same = image;
  Seal(&same);
  ASSERT_EQ(same, image);
  Side side;
  std::mt19937 random(3);
  const size_t header = 36 + 7 + 2 * 42;  // fixed part, build_id, two groups
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> changed = image;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      const size_t at = 8 + random() % (header - 8);
      changed[at] = random() % 2 ? std::byte{0xff} : static_cast<std::byte>(random());
    }
    if (random() % 2) changed.resize(changed.size() + random() % 16);
    const uint64_t size = changed.size();
    if (random() % 2) std::memcpy(changed.data() + 16, &size, sizeof(size));
    Seal(&changed);
    const auto tokens = ReadImageTokens(side.kv, changed, kIdentity);
    if (tokens.ok()) {
      ASSERT_EQ(*tokens, Tokens());
    } else {
      ++refused;
      ASSERT_FALSE(tokens.status().message().empty());
    }
  }
  EXPECT_GT(refused, 15000);
}

TEST(KvImageTest, AStoreThatFailsLeavesNothingOpen) {
  const std::vector<std::byte> image = Exported();
  for (int64_t writes = 0; writes < 8; ++writes) {
    Side side;
    side.pool.writes_left = writes;
    EXPECT_EQ(ImportImage(side.kv, 0, kRequest, image, kIdentity, side.pool).status().code(),
              StatusCode::kIo);
    EXPECT_FALSE(side.kv.is_open(0));
    EXPECT_EQ(side.kv.free_blocks(), side.kv.total_blocks());
    EXPECT_EQ(side.kv.Match("k", Tokens()), 0);
  }
}

}  // namespace
}  // namespace slipstream::kv
