// Thousands of damaged engine files: the default check refuses every change outside the weights,
// the full check every change, and nothing crashes (CI runs this under AddressSanitizer and
// UndefinedBehaviorSanitizer).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>

#include "engine/compatibility.h"
#include "engine/engine_file.h"
#include "engine/weight_store.h"
#include "engine_test_file.h"

namespace slipstream::engine {
namespace {

class CorruptionTest : public testing::Test {
 protected:
  // In memory: thousands of files on a disk would take most of the test's time.
  const int fd_ = memfd_create("engine_corruption_test", MFD_CLOEXEC);
  const std::string path_ = "/proc/self/fd/" + std::to_string(fd_);
  const TestFile good_ = WriteTestFile();
  std::mt19937_64 random_{20240607};

  void TearDown() override { close(fd_); }
  void Write(const std::string& bytes) {
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  uint64_t Draw(uint64_t below) { return random_() % below; }

  /// `bytes` differ from the good file; `only_weights`: nowhere else than inside the weights.
  void ExpectFound(const std::string& bytes, bool only_weights, const std::string& change) {
    Write(bytes);
    const auto by_default = EngineFile::Load(path_, Verify::kDefault);
    const auto in_full = EngineFile::Load(path_, Verify::kFull);
    EXPECT_FALSE(in_full.ok()) << change;
    EXPECT_EQ(by_default.ok(), only_weights) << change << ": " << by_default.status().message();
    for (const Status& status : {by_default.status(), in_full.status()}) {
      if (status.ok()) continue;
      EXPECT_TRUE(status.code() == StatusCode::kCorruptFile ||
                  status.code() == StatusCode::kIncompatible)
          << change << ": " << status.message();
      EXPECT_EQ(status.message().rfind(path_, 0), 0u) << status.message();
    }
  }
};

TEST_F(CorruptionTest, TheGoodFileIsGood) {
  Write(good_.bytes);
  EXPECT_TRUE(EngineFile::Load(path_, Verify::kFull).ok());
}

TEST_F(CorruptionTest, EveryBitOfTheHeader) {
  for (size_t at = 0; at < 128; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good_.bytes;
      bytes[at] ^= static_cast<char>(1 << bit);
      ExpectFound(bytes, false, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    }
  }
}

TEST_F(CorruptionTest, RandomBytesAnywhere) {
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good_.bytes;
    // Half of them where structure is, so that the large padding and the weights do not take most
    // draws.
    const bool in_manifest = i % 2 == 0;
    const uint64_t at = in_manifest
                            ? good_.manifest.begin + Draw(good_.manifest.end - good_.manifest.begin)
                            : Draw(bytes.size());
    bytes[at] ^= static_cast<char>(1 + Draw(255));
    ExpectFound(bytes, good_.weights.Contains(at), "byte " + std::to_string(at));
  }
}

TEST_F(CorruptionTest, SeveralBytesAtOnce) {
  for (int i = 0; i < 500; ++i) {
    std::string bytes = good_.bytes;
    bool only_weights = true;
    for (uint64_t n = 2 + Draw(30); n > 0; --n) {
      const uint64_t at = Draw(bytes.size());
      bytes[at] ^= static_cast<char>(1 + Draw(255));
      only_weights = only_weights && good_.weights.Contains(at);
    }
    if (bytes == good_.bytes) continue;
    ExpectFound(bytes, only_weights, "several bytes, round " + std::to_string(i));
  }
}

TEST_F(CorruptionTest, CutsAndPads) {
  for (int i = 0; i < 500; ++i) {
    const uint64_t size = i < 200 ? i : Draw(good_.bytes.size());
    ExpectFound(good_.bytes.substr(0, size), false, "cut to " + std::to_string(size));
  }
  for (uint64_t size = 1; size < 5000; size += 1 + Draw(100)) {
    ExpectFound(good_.bytes + std::string(size, '\0'), false, "padded by " + std::to_string(size));
    // The header may even agree with the new size.
    std::string bytes = good_.bytes + std::string(size, '\0');
    StoreAt<uint64_t>(bytes, 16, bytes.size());
    ExpectFound(bytes, false, "padded, header fixed, by " + std::to_string(size));
  }
}

TEST_F(CorruptionTest, InsertedRemovedAndMovedPieces) {
  for (int i = 0; i < 500; ++i) {
    std::string bytes = good_.bytes;
    const uint64_t at = Draw(bytes.size());
    const uint64_t length = 1 + Draw(200);
    bytes.erase(at, length);
    if (i % 2 == 0) bytes.insert(Draw(bytes.size()), std::string(length, static_cast<char>(i)));
    if (i % 3 == 0) StoreAt<uint64_t>(bytes, 16, bytes.size());
    if (bytes == good_.bytes) continue;
    Write(bytes);
    EXPECT_FALSE(EngineFile::Load(path_, Verify::kFull).ok());
    (void)EngineFile::Load(path_, Verify::kDefault);  // Must not crash.
  }
}

TEST_F(CorruptionTest, HostileHeaderNumbers) {
  const uint64_t numbers[] = {0,
                              1,
                              127,
                              128,
                              4095,
                              4096,
                              good_.bytes.size(),
                              good_.bytes.size() + 1,
                              uint64_t{1} << 31,
                              uint64_t{1} << 32,
                              uint64_t{1} << 63,
                              ~uint64_t{0},
                              ~uint64_t{0} - 4095,
                              good_.manifest.begin};
  for (uint64_t size : numbers) {
    for (uint64_t offset : numbers) {
      for (uint64_t manifest : numbers) {
        std::string bytes = good_.bytes;
        StoreAt(bytes, 16, size);
        StoreAt(bytes, 24, offset);
        StoreAt(bytes, 32, manifest);
        Write(bytes);
        EXPECT_FALSE(EngineFile::Load(path_, Verify::kFull).ok());
      }
    }
  }
}

/// Replaces one random value somewhere inside `value`.
void MutateJson(nlohmann::json& value, std::mt19937_64& random) {
  static const nlohmann::json kReplacements = nlohmann::json::parse(
      R"([null, true, -1, 0, 1, 3, 4095, 4096, 1073741824, 2147483648, 9223372036854775807,
          18446744073709551615, 1.5, "", "weights", "n16k4", "bf16", [], {}, [[]], [-1],
          [9223372036854775807, 9223372036854775807], {"name": 1}])");
  if (value.is_structured() && !value.empty() && random() % 8 != 0) {
    auto child = value.begin();
    std::advance(child, static_cast<long>(random() % value.size()));
    if (random() % 16 == 0) {
      value.erase(child);
    } else {
      MutateJson(*child, random);
    }
    return;
  }
  value = kReplacements[random() % kReplacements.size()];
}

// A hostile writer makes the hashes right. Then a file may be accepted, but only with every tensor
// and section in bounds.
TEST_F(CorruptionTest, HostileManifestsWithRightHashes) {
  int accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    TestFileOptions options;
    options.edit = [this](nlohmann::json& manifest) {
      for (uint64_t n = 1 + Draw(2); n > 0; --n) MutateJson(manifest, random_);
    };
    Write(WriteTestFile(options).bytes);
    const auto opened = EngineFile::Open(path_);
    if (!opened.ok()) continue;
    (void)CompatibilityStatus(path_, CheckCompatibility((*opened)->manifest()));
    (void)(*opened)->Verify(Verify::kFull);  // Tools call it on files that cannot run here.
    const auto file = EngineFile::Load(path_, Verify::kFull);
    if (!file.ok()) continue;
    ++accepted;
    const auto weights = (*file)->SectionBytes("weights");
    auto store = MapWeights(*file);
    ASSERT_TRUE(store.ok());
    for (const Tensor& tensor : (*file)->manifest().tensors) {
      ASSERT_LE(tensor.offset, weights.size());
      ASSERT_LE(tensor.size, weights.size() - tensor.offset);
      auto view = (*store)->Find(tensor.name);
      ASSERT_TRUE(view.ok());
      uint8_t sum = 0;  // ASan checks that every byte is there.
      for (uint64_t b = 0; b < view->tensor->size; ++b)
        sum += std::to_integer<uint8_t>(view->data[b]);
      volatile uint8_t sink = sum;
      (void)sink;
    }
  }
  EXPECT_GT(accepted, 0);     // Model names, memory numbers and the like may change.
  EXPECT_LT(accepted, 3000);  // Most changes are refused.
}

}  // namespace
}  // namespace slipstream::engine
