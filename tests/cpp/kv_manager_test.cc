// Block pool, group arithmetic and block tables, each against a simple model.
#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "kv_fake_pool.h"

namespace slipstream::kv {
namespace {

TEST(BlockPoolTest, CountsReferences) {
  BlockPool pool(2);
  const int32_t a = *pool.Allocate();
  const int32_t b = *pool.Allocate();
  EXPECT_NE(a, b);
  EXPECT_FALSE(pool.Allocate().has_value());
  pool.AddReference(a);
  EXPECT_FALSE(pool.Release(a));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.Release(a));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(*pool.Allocate(), a);
}

TEST(BlockPoolTest, RandomOperationsAgreeWithAModel) {
  const uint32_t seed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  BlockPool pool(37);
  std::map<int32_t, int32_t> model;  // block -> references
  for (int step = 0; step < 20000; ++step) {
    const uint32_t action = random() % 3;
    if (action == 0) {
      const std::optional<int32_t> block = pool.Allocate();
      ASSERT_EQ(block.has_value(), model.size() < 37);
      if (block) {
        ASSERT_TRUE(*block >= 0 && *block < 37);
        ASSERT_TRUE(model.emplace(*block, 1).second) << "block " << *block << " was in use";
      }
    } else if (!model.empty()) {
      auto held = std::next(model.begin(), random() % model.size());
      if (action == 1) {
        pool.AddReference(held->first);
        ++held->second;
      } else {
        ASSERT_EQ(pool.Release(held->first), held->second == 1);
        if (--held->second == 0) model.erase(held);
      }
    }
    ASSERT_EQ(pool.free(), 37 - static_cast<int64_t>(model.size()));
  }
  for (auto& [block, references] : model) {
    while (references-- > 0) pool.Release(block);
  }
  EXPECT_EQ(pool.free(), pool.total());
}

TEST(GroupSpecTest, KindsAreCheckedAndNamed) {
  EXPECT_TRUE(MakeGroupSpec("full", 32, 0, 1024).ok());
  EXPECT_TRUE(MakeGroupSpec("window", 32, 512, 1024).ok());
  for (const char* kind : {"latent", "state"}) {
    const auto refused = MakeGroupSpec(kind, 32, 0, 1024);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kIncompatible);
    EXPECT_NE(refused.status().message().find(kind), std::string::npos);
  }
  EXPECT_EQ(MakeGroupSpec("paged", 32, 0, 1024).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGroupSpec("full", 32, 8, 1024).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGroupSpec("window", 32, 0, 1024).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGroupSpec("full", 0, 0, 1024).status().code(), StatusCode::kInvalidArgument);
}

TEST(GroupSpecTest, PeakBlocksIsACloseUpperBound) {
  // By brute force over every alignment: blocks touched by the positions that are read or written
  // in one step.
  for (int32_t block : {1, 2, 4, 7}) {
    for (int32_t window : {1, 2, 5, 8, 16}) {
      for (int32_t chunk : {1, 2, 3, 8}) {
        for (int64_t total : {1, 5, 17, 40}) {
          int64_t most = 0;
          for (int64_t first = 0; first < total; ++first) {
            const int64_t last = std::min<int64_t>(total, first + chunk) - 1;
            const int64_t oldest = std::max<int64_t>(0, first - window + 1);
            most = std::max(most, last / block - oldest / block + 1);
          }
          const int64_t peak = PeakBlocks(Window(block, window), total, chunk);
          ASSERT_GE(peak, most) << block << ' ' << window << ' ' << chunk << ' ' << total;
          ASSERT_LE(peak, most + 1) << block << ' ' << window << ' ' << chunk << ' ' << total;
        }
      }
    }
  }
  EXPECT_EQ(PeakBlocks(Full(32), 1, 512), 1);
  EXPECT_EQ(PeakBlocks(Full(32), 32, 512), 1);
  EXPECT_EQ(PeakBlocks(Full(32), 33, 512), 2);
  EXPECT_EQ(PeakBlocks(Window(32, 64), 8192, 1), 3);
}

TEST(KvManagerTest, WindowGroupFreesWhatNoQueryCanReach) {
  const std::vector<int64_t> blocks = {8, 8};
  KvManager kv({Full(4), Window(4, 5)}, blocks, 1, 4);
  ASSERT_TRUE(kv.Open(0, {.total_tokens = 20}).ok());
  ASSERT_TRUE(kv.Extend(0, 0, 4).ok());
  ASSERT_TRUE(kv.Extend(0, 4, 4).ok());
  EXPECT_EQ(kv.Held(0, 1), 2);  // position 4 still reads position 0
  ASSERT_TRUE(kv.Extend(0, 8, 1).ok());
  // Position 8 reads 4..8: block 0 is dead in the window group only.
  EXPECT_EQ(kv.Table(0, 1)[0], -1);
  EXPECT_GE(kv.Table(0, 1)[1], 0);
  EXPECT_GE(kv.Table(0, 0)[0], 0);
  EXPECT_EQ(kv.Held(0, 0), 3);
  EXPECT_EQ(kv.Held(0, 1), 2);
  kv.Close(0, {}, 0, false);
  EXPECT_EQ(kv.free_blocks(), 16);
}

TEST(KvManagerTest, OpenRefusesBeyondThePoolAndChangesNothing) {
  const std::vector<int64_t> blocks = {4, 1};
  KvManager kv({Full(4), Full(8)}, blocks, 2, 4);
  EXPECT_EQ(kv.Open(0, {.total_tokens = 16}).status().code(),
            StatusCode::kResourceExhausted);  // group 1 needs 2
  EXPECT_EQ(kv.Unreserved(), blocks);
  ASSERT_TRUE(kv.Open(0, {.total_tokens = 8}).ok());
  EXPECT_EQ(kv.Unreserved(), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(kv.Extend(0, 0, 16).code(), StatusCode::kInternal);
  kv.Close(0, {}, 0, false);
  EXPECT_EQ(kv.free_blocks(), 5);
}

// Sequences open, grow by random chunks and close in random order; every live position keeps its
// block, no block has two owners, reservations suffice, and all come back.
TEST(KvManagerTest, RandomOperationsAgreeWithAModel) {
  const uint32_t seed = 7011;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int32_t kSlots = 6, kChunk = 9;
  const std::vector<GroupSpec> groups = {Full(4), Window(4, 6), Window(8, 20), Window(3, 1)};
  const std::vector<int64_t> blocks = {40, 17, 13, 19};
  KvManager kv(groups, blocks, kSlots, kChunk);
  struct Sequence {
    int64_t total = 0, computed = 0;
    std::vector<std::map<int64_t, int32_t>> owner;  // group -> logical block -> physical block
  };
  std::map<int32_t, Sequence> model;
  int refused = 0, closed = 0;
  for (int step = 0; step < 30000; ++step) {
    const int32_t slot = static_cast<int32_t>(random() % kSlots);
    const auto found = model.find(slot);
    if (found == model.end()) {
      const int64_t total = 1 + random() % 60;
      bool fits = true;
      for (size_t g = 0; g < groups.size(); ++g) {
        int64_t reserved = 0;
        for (const auto& [other, sequence] : model)
          reserved += PeakBlocks(groups[g], sequence.total, kChunk);
        fits &= reserved + PeakBlocks(groups[g], total, kChunk) <= blocks[g];
      }
      ASSERT_EQ(kv.Open(slot, {.total_tokens = total}).ok(), fits);
      refused += !fits;
      if (fits) model[slot] = {total, 0, std::vector<std::map<int64_t, int32_t>>(groups.size())};
      continue;
    }
    Sequence& sequence = found->second;
    if (sequence.computed == sequence.total || random() % 40 == 0) {
      kv.Close(slot, {}, 0, false);
      model.erase(found);
      ++closed;
    } else {
      const int64_t count =
          std::min<int64_t>(sequence.total - sequence.computed, 1 + random() % kChunk);
      ASSERT_TRUE(kv.Extend(slot, sequence.computed, count).ok());
      for (size_t g = 0; g < groups.size(); ++g) {
        const auto table = kv.Table(slot, static_cast<int32_t>(g));
        const int64_t oldest = groups[g].window == 0
                                   ? 0
                                   : std::max<int64_t>(0, sequence.computed - groups[g].window + 1);
        for (int64_t p = oldest; p < sequence.computed + count; ++p) {
          const int64_t logical = p / groups[g].block_tokens;
          const int32_t physical = table[logical];
          ASSERT_TRUE(physical >= 0 && physical < blocks[g]);
          const auto [entry, fresh] = sequence.owner[g].emplace(logical, physical);
          ASSERT_EQ(entry->second, physical) << "a live block moved";
        }
        for (int64_t b = 0; b < oldest / groups[g].block_tokens; ++b) ASSERT_EQ(table[b], -1);
      }
      sequence.computed += count;
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      std::set<int32_t> used;
      int64_t held = 0;
      for (const auto& [other, ignored] : model) {
        for (const int32_t block : kv.Table(other, static_cast<int32_t>(g))) {
          if (block < 0) continue;
          ++held;
          ASSERT_TRUE(used.insert(block).second) << "block " << block << " has two owners";
        }
      }
      ASSERT_EQ(kv.free_blocks(static_cast<int32_t>(g)), blocks[g] - held);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(closed, 100);
  for (const auto& [slot, sequence] : model) kv.Close(slot, {}, 0, false);
  EXPECT_EQ(kv.free_blocks(), kv.total_blocks());
  EXPECT_EQ(kv.Unreserved(), blocks);
}

}  // namespace
}  // namespace slipstream::kv
