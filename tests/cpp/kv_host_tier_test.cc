// The host tier: what moves there and comes back, what is given up for good, and its memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "kv/host_pool.h"
#include "kv_fake_pool.h"

namespace slipstream::kv {
namespace {

std::vector<TokenId> Range(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A cache whose copies are carried out, and whose contents are checked wherever they are read.
struct Cache {
  Cache(std::vector<GroupSpec> groups, std::vector<int64_t> blocks, std::vector<int64_t> slots)
      : kv(groups, blocks, 4, 64, {.max_events = 1000, .host_slots = slots}),
        pool(groups, blocks, slots) {}

  /// Opens, computes and closes; its cached tokens.
  int64_t Talk(const std::vector<TokenId>& tokens, std::vector<KvRetention> retention = {}) {
    const auto size = static_cast<int64_t>(tokens.size());
    const Result<int64_t> hit = kv.Open(0, {.cache_key = "k",
                                            .tokens = tokens,
                                            .total_tokens = size,
                                            .retention = std::move(retention)});
    if (!hit.ok()) {
      ADD_FAILURE() << hit.status().message();
      return -1;
    }
    EXPECT_TRUE(kv.Extend(0, *hit, size - *hit).ok());
    last = kv.TakeCopies();
    pool.Copy(last);
    pool.Write(kv, 0, "k", tokens, *hit, size - *hit);
    pool.CheckReads(kv, 0, "k", tokens, size);
    kv.Commit(0, tokens, size);
    kv.Close(0, tokens, size, true);
    return *hit;
  }
  int64_t Ordered(Tier from, Tier to) const {
    return std::count_if(last.begin(), last.end(),
                         [&](const BlockCopy& copy) { return copy.from == from && copy.to == to; });
  }

  KvManager kv;
  FakePool pool;
  std::vector<BlockCopy> last;  // of the last Talk
};

TEST(KvHostTierTest, WhatIsEvictedComesBack) {
  Cache cache({Full(4)}, {4}, {8});
  const auto first = Range(0, 16), second = Range(100, 16);
  EXPECT_EQ(cache.Talk(first), 0);
  EXPECT_EQ(cache.kv.host_used_slots(), 0) << "nothing had to leave";
  EXPECT_EQ(cache.Talk(second), 0);
  EXPECT_EQ(cache.Ordered(Tier::kDevice, Tier::kHost), 4);
  EXPECT_EQ(cache.kv.host_used_slots(), 4);
  EXPECT_EQ(cache.kv.Match("k", first), 15);
  // All but the last token, whose block is copied from its slot.
  EXPECT_EQ(cache.Talk(first), 15);
  EXPECT_EQ(cache.Ordered(Tier::kHost, Tier::kDevice), 4);
  EXPECT_EQ(cache.Ordered(Tier::kDevice, Tier::kHost), 4) << "the second made room";
  // The last block of the first was computed again and took the place of its slot.
  EXPECT_EQ(cache.kv.host_used_slots(), 4);
  EXPECT_EQ(cache.Talk(second), 15);
  EXPECT_EQ(cache.kv.moved_out(), 12);
  EXPECT_EQ(cache.kv.moved_in(), 8);
  cache.kv.Reset();
  EXPECT_EQ(cache.kv.host_used_slots(), 0);
  EXPECT_EQ(cache.kv.free_blocks(), 4);
}

TEST(KvHostTierTest, AnIncompleteLastBlockComesBack) {
  Cache cache({Full(4)}, {4}, {8});
  EXPECT_EQ(cache.Talk(Range(0, 10)), 0);
  EXPECT_EQ(cache.Talk(Range(100, 16)), 0);
  EXPECT_EQ(cache.Talk(Range(0, 15)), 10) << "the talk goes on behind it";
  EXPECT_EQ(cache.Ordered(Tier::kHost, Tier::kDevice), 3);
}

TEST(KvHostTierTest, AWindowGroupBringsBackWhatTheNextPositionReads) {
  Cache cache({Full(4), Window(4, 6)}, {12, 12}, {24, 24});
  EXPECT_EQ(cache.Talk(Range(0, 41)), 0);
  EXPECT_EQ(cache.Talk(Range(100, 41)), 0);
  EXPECT_EQ(cache.Talk(Range(0, 41)), 40);
  const auto in_window = std::count_if(cache.last.begin(), cache.last.end(), [](const auto& copy) {
    return copy.group == 1 && copy.to == Tier::kDevice;
  });
  EXPECT_EQ(in_window, 2);  // position 40 reads 35 to 39
}

TEST(KvHostTierTest, TheLeastWorthIsGivenUp) {
  Cache cache({Full(4)}, {2}, {3});
  EXPECT_EQ(cache.Talk(Range(0, 8), {{.priority = 90}}), 0);
  EXPECT_EQ(cache.Talk(Range(100, 8)),
            0);  // the first, of high priority, was evicted: no other was
  EXPECT_EQ(cache.kv.host_used_slots(), 2);
  EXPECT_EQ(cache.Talk(Range(200, 8)), 0);  // one block of the second finds a slot
  EXPECT_EQ(cache.kv.host_used_slots(), 3);
  EXPECT_EQ(cache.kv.Match("k", Range(0, 9)), 8);
  EXPECT_EQ(cache.kv.Match("k", Range(100, 9)), 4);
  // Low priority is not worth a slot of what is there.
  EXPECT_EQ(cache.Talk(Range(300, 8), {{.priority = 1}}), 0);
  EXPECT_EQ(cache.Talk(Range(400, 8)), 0);
  EXPECT_EQ(cache.kv.Match("k", Range(300, 9)), 0);
  EXPECT_EQ(cache.kv.Match("k", Range(0, 9)), 8);
}

TEST(KvHostTierTest, PinnedBlocksStay) {
  Cache cache({Full(4)}, {6}, {8});
  const auto held = Range(0, 16);
  ASSERT_TRUE(cache.kv.Open(1, {.cache_key = "k", .tokens = held, .total_tokens = 16}).ok());
  ASSERT_TRUE(cache.kv.Extend(1, 0, 16).ok());
  cache.pool.Write(cache.kv, 1, "k", held, 0, 16);
  cache.kv.Commit(1, held, 16);
  for (int i = 1; i < 5; ++i) EXPECT_EQ(cache.Talk(Range(100 * i, 8)), 0);
  EXPECT_EQ(cache.kv.moved_out(), 6);
  cache.pool.CheckReads(cache.kv, 1, "k", held, 16);
}

TEST(KvHostTierTest, WhatAFailedSequenceWroteLeavesTheHostToo) {
  Cache cache({Window(4, 6)}, {6}, {8});
  const auto tokens = Range(0, 40);
  const Result<int64_t> opened =
      cache.kv.Open(1, {.cache_key = "k", .tokens = tokens, .total_tokens = 40, .reserve = false});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  for (int64_t p = 0; p < 40; p += 4) {
    ASSERT_TRUE(cache.kv.Extend(1, p, 4).ok());
    cache.kv.Commit(1, tokens, p + 4);
  }
  EXPECT_GT(cache.kv.host_used_slots(), 3) << "what left the window moved";
  cache.kv.Close(1, tokens, 40, false);
  EXPECT_EQ(cache.kv.host_used_slots(), 0);
  EXPECT_EQ(cache.kv.free_blocks(), 6);
}

TEST(KvHostTierTest, EventsTellWhereBlocksAre) {
  Cache cache({Full(4)}, {2}, {2});
  cache.Talk(Range(0, 8));
  const std::vector<KvEvent> stored = cache.kv.TakeEvents();
  ASSERT_EQ(stored.size(), 1u);
  cache.Talk(Range(100, 8));
  cache.Talk(Range(0, 8));
  std::vector<KvEvent> moved = cache.kv.TakeEvents();
  std::erase_if(moved, [&](const KvEvent& event) {
    return event.kind != KvEvent::Kind::kMoved || event.hashes[0] != stored[0].hashes[0];
  });
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0].from, Tier::kDevice);
  EXPECT_EQ(moved[0].to, Tier::kHost);
  EXPECT_EQ(moved[1].from, Tier::kHost);
  EXPECT_EQ(moved[1].to, Tier::kDevice);
}

TEST(HostPoolTest, KeepsBytesInAFileWithoutAName) {
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) / ("host_pool_" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  const std::vector<GroupSpec> groups = {Full(4), Window(4, 6)};
  auto pool = HostPool::Create(groups, std::vector<int64_t>{5, 3}, dir.string());
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  for (const bool write : {true, false}) {
    for (int32_t g = 0; g < 2; ++g) {
      for (int32_t slot = 0; slot < (g == 0 ? 5 : 3); ++slot) {
        const std::span<std::byte> bytes = (*pool)->Slot(g, slot);
        ASSERT_EQ(bytes.size(), 64u);
        const auto value = static_cast<std::byte>(16 * g + slot + 1);
        if (write) std::fill(bytes.begin(), bytes.end(), value);
        EXPECT_EQ(std::count(bytes.begin(), bytes.end(), value), 64);
      }
    }
  }
  std::filesystem::remove(dir);
}

TEST(HostPoolTest, SaysWhyItCannotBeMade) {
  const std::vector<GroupSpec> groups = {Full(4)};
  const auto missing = HostPool::Create(groups, std::vector<int64_t>{5}, "/nowhere/at/all");
  EXPECT_EQ(missing.status().code(), StatusCode::kIo);
  EXPECT_NE(missing.status().message().find("'/nowhere/at/all' (host_kv_dir)"), std::string::npos);
  const auto full =
      HostPool::Create(groups, std::vector<int64_t>{int64_t{1} << 55}, testing::TempDir());
  EXPECT_EQ(full.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.status().message().find("host_kv_bytes"), std::string::npos);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto limited = HostPool::Create(groups, std::vector<int64_t>{20}, testing::TempDir());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(limited.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(limited.status().message().find("1280 bytes"), std::string::npos);
}

TEST(HostPoolTest, SlotsFollowTheProportionOfThePool) {
  const std::vector<GroupSpec> groups = {Full(4), {.window = 6, .bytes_per_block = 32}};
  const std::vector<int64_t> blocks = {10, 20};
  EXPECT_EQ(*PlanHostSlots(groups, blocks, 1280), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(*PlanHostSlots(groups, blocks, 128), (std::vector<int64_t>{1, 2}));
  const auto less = PlanHostSlots(groups, blocks, 100);
  EXPECT_EQ(less.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(less.status().message().find("at least 129"), std::string::npos)
      << less.status().message();
}

}  // namespace
}  // namespace slipstream::kv
