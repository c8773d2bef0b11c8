// The rules of the KV cache, one by one, and its longest hits against a plain list of what was
// stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kv_fake_pool.h"

namespace slipstream::kv {
namespace {

std::vector<TokenId> Range(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<TokenId> Join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

OpenRequest Ask(const std::vector<TokenId>& tokens, int64_t total = 0) {
  return {.cache_key = "k",
          .tokens = tokens,
          .total_tokens = std::max<int64_t>(total, static_cast<int64_t>(tokens.size()))};
}

/// Opens, computes all tokens and leaves the sequence open; its cached tokens.
int64_t Compute(KvManager& kv, int32_t slot, const OpenRequest& request) {
  const Result<int64_t> hit = kv.Open(slot, request);
  EXPECT_TRUE(hit.ok()) << hit.status().message();
  const auto size = static_cast<int64_t>(request.tokens.size());
  EXPECT_TRUE(kv.Extend(slot, *hit, size - *hit).ok());
  kv.Commit(slot, request.tokens, size);
  return *hit;
}

void Finish(KvManager& kv, int32_t slot, const std::vector<TokenId>& tokens, bool keep = true) {
  kv.Close(slot, tokens, static_cast<int64_t>(tokens.size()), keep);
}

TEST(KvCacheTest, AHitMayEndInsideABlockWhichIsCopied) {
  KvManager kv({Full(4)}, std::vector<int64_t>{16}, 4, 64);
  const auto first = Range(0, 10);
  EXPECT_EQ(Compute(kv, 0, Ask(first)), 0);
  Finish(kv, 0, first);
  EXPECT_EQ(kv.cached_blocks(), 3);  // the incomplete one too
  EXPECT_TRUE(kv.TakeCopies().empty());
  // The same again: all but one, out of the incomplete block.
  EXPECT_EQ(kv.Match("k", first), 9);
  EXPECT_EQ(kv.Match("other", first), 0);
  EXPECT_EQ(kv.Match("k", {}), 0);
  ASSERT_EQ(*kv.Open(1, Ask(first)), 9);
  const auto copies = kv.TakeCopies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].target, kv.Table(1, 0)[2]);
  EXPECT_NE(copies[0].source, copies[0].target);
  EXPECT_EQ(kv.pinned_blocks(), 3);
  EXPECT_EQ(kv.evictable_blocks(), 1);
  // Another continuation: inside a whole block that is shared up to there.
  const auto other = Join(Range(0, 6), Range(90, 5));
  EXPECT_EQ(*kv.Open(2, Ask(other)), 6);
  EXPECT_EQ(kv.Table(2, 0)[0], kv.Table(1, 0)[0]);
  EXPECT_NE(kv.Table(2, 0)[1], kv.Table(1, 0)[1]);
}

TEST(KvCacheTest, BlocksAreSharedWhileTheirProducerRuns) {
  KvManager kv({Full(4), Window(4, 6)}, std::vector<int64_t>{16, 16}, 3, 64);
  const auto tokens = Range(0, 14);
  ASSERT_EQ(*kv.Open(0, Ask(tokens)), 0);
  ASSERT_EQ(*kv.Open(1, Ask(tokens)), 0);
  EXPECT_EQ(kv.Producer(0), -1);
  EXPECT_EQ(kv.Producer(1), 0);  // as far, and opened first
  ASSERT_TRUE(kv.Extend(0, 0, 9).ok());
  kv.Commit(0, tokens, 9);
  EXPECT_EQ(kv.Producer(1), -1) << "block 0 is there, nobody computes it any more";
  EXPECT_EQ(kv.Adopt(1, tokens, 0), 8);
  EXPECT_EQ(kv.Producer(1), 0);
  EXPECT_EQ(kv.Table(1, 0)[1], kv.Table(0, 0)[1]);
  EXPECT_EQ(kv.pinned_blocks(0), 3);
  kv.Close(0, tokens, 9, true);  // the producer is cancelled: the follower goes on
  EXPECT_EQ(kv.Producer(1), -1);
  EXPECT_EQ(kv.Adopt(1, tokens, 8), 8);
  ASSERT_TRUE(kv.Extend(1, 8, 6).ok());
}

TEST(KvCacheTest, WhoComputedTheSameTakesTheStoredBlock) {
  KvManager kv({Full(4)}, std::vector<int64_t>{16}, 2, 64);
  const auto tokens = Range(0, 8);
  ASSERT_TRUE(kv.Open(0, Ask(tokens)).ok() && kv.Open(1, Ask(tokens)).ok());
  ASSERT_TRUE(kv.Extend(0, 0, 8).ok() && kv.Extend(1, 0, 8).ok());
  EXPECT_EQ(kv.pinned_blocks(), 4);
  kv.Commit(0, tokens, 8);
  kv.Commit(1, tokens, 8);
  EXPECT_EQ(kv.pinned_blocks(), 2);
  EXPECT_TRUE(std::ranges::equal(kv.Table(0, 0), kv.Table(1, 0)));
}

TEST(KvCacheTest, WindowGroupsNeedTheLastPositionsOnly) {
  KvManager kv({Window(4, 5)}, std::vector<int64_t>{4}, 2, 4);
  const auto tokens = Range(0, 24);
  ASSERT_TRUE(kv.Open(0, Ask(tokens)).ok());
  for (int64_t p = 0; p < 24; p += 4) {
    ASSERT_TRUE(kv.Extend(0, p, 4).ok());
    kv.Commit(0, tokens, p + 4);
  }
  EXPECT_LE(kv.Held(0, 0), 3);
  Finish(kv, 0, tokens);
  EXPECT_EQ(kv.Match("k", tokens), 23);
  EXPECT_EQ(kv.Match("k", Range(0, 7)), 0) << "the first blocks were evicted";
  ASSERT_EQ(*kv.Open(1, Ask(tokens)), 23);
  EXPECT_EQ(kv.Table(1, 0)[3], -1);
  EXPECT_GE(kv.Table(1, 0)[4], 0);
}

TEST(KvCacheTest, LeavesGoBeforeParentsAndTheLeastRecentlyUsedFirst) {
  KvManager kv({Full(4)}, std::vector<int64_t>{6}, 2, 64);
  const auto stem = Range(0, 8);
  const auto a = Join(stem, Range(100, 4)), b = Join(stem, Range(200, 4));
  Compute(kv, 0, Ask(a));
  Finish(kv, 0, a);
  Compute(kv, 0, Ask(b));
  Finish(kv, 0, b);
  EXPECT_EQ(kv.cached_blocks(), 4);
  const auto other = Range(1000, 12);
  Compute(kv, 0, Ask(other));  // three blocks: two free ones and the leaf of a
  EXPECT_EQ(kv.Match("k", Join(a, {1})), 8);
  EXPECT_EQ(kv.Match("k", Join(b, {1})), 12);
  EXPECT_EQ(kv.free_blocks(), 0);
}

TEST(KvCacheTest, PrioritiesHoldForTheirTime) {
  int64_t now = 1000;
  KvManager kv({Full(4)}, std::vector<int64_t>{3}, 2, 64, {.clock = [&] { return now; }});
  const auto firm = Range(0, 4), plain = Range(10, 4), weak = Range(20, 4), fresh = Range(30, 4);
  OpenRequest request = Ask(firm);
  request.retention = {{.priority = 90, .duration = std::chrono::milliseconds(50)}};
  Compute(kv, 0, request);
  Finish(kv, 0, firm);
  Compute(kv, 0, Ask(plain));
  Finish(kv, 0, plain);
  request = Ask(weak);
  request.retention = {{.first = 0, .end = 4, .priority = 1}};
  Compute(kv, 0, request);
  Finish(kv, 0, weak);
  const auto kept = [&](const std::vector<TokenId>& t) { return kv.Match("k", Join(t, {1})) == 4; };
  EXPECT_TRUE(kept(firm) && kept(plain) && kept(weak));
  Compute(kv, 0, Ask(fresh));
  EXPECT_TRUE(kept(firm) && kept(plain) && !kept(weak)) << "the lowest priority goes first";
  Finish(kv, 0, fresh, false);
  Compute(kv, 0, Ask(fresh));
  Finish(kv, 0, fresh);
  Compute(kv, 0, Ask(weak));
  EXPECT_TRUE(kept(firm) && !kept(plain)) << "the oldest of the middle ones";
  Finish(kv, 0, weak);
  now += 50;
  Compute(kv, 0, Ask(plain));
  EXPECT_FALSE(kept(firm)) << "its time is over and it is the oldest";
  EXPECT_TRUE(kept(fresh) && kept(weak));
}

TEST(KvCacheTest, ForksShareAndCopyWhatTheyWrite) {
  KvManager kv({Full(4)}, std::vector<int64_t>{8}, 3, 64);
  const auto tokens = Range(0, 6);
  Compute(kv, 0, Ask(tokens, 8));
  ASSERT_TRUE(kv.Fork(0, 1, 8, true).ok());
  EXPECT_EQ(kv.pinned_blocks(), 2);
  EXPECT_EQ(kv.Unreserved(), std::vector<int64_t>{5}) << "one copy is promised";
  ASSERT_TRUE(kv.Extend(1, 6, 1).ok());
  const auto copies = kv.TakeCopies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, kv.Table(0, 0)[1]);
  EXPECT_EQ(copies[0].target, kv.Table(1, 0)[1]);
  ASSERT_TRUE(kv.Extend(0, 6, 1).ok());
  EXPECT_TRUE(kv.TakeCopies().empty()) << "the last holder writes in place";
  EXPECT_EQ(kv.Unreserved(), std::vector<int64_t>{5});
  // One of two that share leaves: no copy is due any more.
  kv.Commit(0, Range(0, 7), 7);
  ASSERT_TRUE(kv.Fork(0, 2, 8, true).ok());
  kv.Close(0, Range(0, 7), 7, true);
  ASSERT_TRUE(kv.Extend(2, 7, 1).ok());
  EXPECT_TRUE(kv.TakeCopies().empty());
}

TEST(KvCacheTest, WhatFailedIsForgotten) {
  KvManager kv({Full(4), Window(4, 5)}, std::vector<int64_t>{16, 16}, 2, 64);
  const auto good = Range(0, 8), bad = Join(good, Range(50, 8));
  Compute(kv, 0, Ask(good));
  Finish(kv, 0, good);
  Compute(kv, 0, Ask(bad));
  EXPECT_EQ(kv.Match("k", Join(bad, {1})), 16);
  Finish(kv, 0, bad, false);
  EXPECT_EQ(kv.Match("k", Join(bad, {1})), 8) << "what others wrote stays";
}

TEST(KvCacheTest, DroppedKeysAreForgottenAlsoByThoseThatRun) {
  KvManager kv({Full(4)}, std::vector<int64_t>{16}, 2, 64);
  const auto tokens = Range(0, 8), more = Range(0, 12);
  OpenRequest request = Ask(tokens, 12);
  request.cache_key = "v1/x";
  Compute(kv, 0, request);
  request.cache_key = "v2/x";
  Compute(kv, 1, request);
  kv.DropKey("v1/");
  EXPECT_EQ(kv.Match("v1/x", more), 0);
  EXPECT_EQ(kv.Match("v2/x", more), 8);
  ASSERT_TRUE(kv.Extend(0, 8, 4).ok());
  kv.Commit(0, more, 12);
  kv.Close(0, more, 12, true);
  EXPECT_EQ(kv.Match("v1/x", more), 0);
  EXPECT_EQ(kv.free_blocks(), 14);
}

TEST(KvCacheTest, WithoutPromiseExtendMayLackBlocksAndChangesNothing) {
  KvManager kv({Full(4)}, std::vector<int64_t>{3}, 2, 64);
  const auto tokens = Range(0, 8);  // the request only looks at them
  OpenRequest request = Ask(tokens, 64);
  request.reserve = false;
  Compute(kv, 0, request);
  EXPECT_EQ(kv.Unreserved(), std::vector<int64_t>{1});
  ASSERT_TRUE(kv.Extend(0, 8, 4).ok());
  EXPECT_EQ(kv.Extend(0, 12, 1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(kv.Held(0, 0), 3);
  EXPECT_EQ(kv.Open(1, Ask(Range(50, 1))).status().code(), StatusCode::kResourceExhausted);
}

TEST(KvCacheTest, EventsTellWhatIsStoredAndRemoved) {
  KvManager kv({Full(4)}, std::vector<int64_t>{3}, 1, 64, {.max_events = 3});
  const auto tokens = Range(0, 10);
  Compute(kv, 0, Ask(tokens));
  Finish(kv, 0, tokens);
  auto events = kv.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, KvEvent::Kind::kStored);
  EXPECT_EQ(events[0].hashes.size(), 2u);
  EXPECT_EQ(events[0].parent, KeyHash("k"));
  EXPECT_EQ(events[0].hashes[0], ChainHash(KeyHash("k"), Range(0, 4)));
  EXPECT_EQ(events[0].hashes[1], ChainHash(events[0].hashes[0], Range(4, 4)));
  EXPECT_EQ(events[0].token_ids, Range(0, 8));
  EXPECT_EQ(events[0].cache_salt, "k");
  EXPECT_EQ(events[1].parent, events[0].hashes[1]);
  EXPECT_EQ(events[1].token_ids, Range(8, 2));
  const auto stored = events;
  Compute(kv, 0, Ask(Range(100, 4)));
  events = kv.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, KvEvent::Kind::kRemoved);
  EXPECT_EQ(events[0].hashes, stored[1].hashes);
  EXPECT_EQ(events[1].kind, KvEvent::Kind::kStored);
  Finish(kv, 0, Range(100, 4));
  for (TokenId t = 200; t < 230; t += 10) {  // each: one removed, one stored
    Compute(kv, 0, Ask(Range(t, 4)));
    Finish(kv, 0, Range(t, 4));
  }
  EXPECT_EQ(kv.TakeEvents().size(), 3u);
  EXPECT_EQ(kv.dropped_events(), 3);
}

// As long as nothing is evicted, a hit is the longest prefix that any stored sequence has.
TEST(KvCacheTest, HitsAreTheLongestThatWasStored) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const std::vector<GroupSpec> groups =
        seed % 2 ? std::vector<GroupSpec>{Full(4)}
                 : std::vector<GroupSpec>{Full(4), Window(4, 7), Full(3)};
    KvManager kv(groups, std::vector<int64_t>(groups.size(), 6000), 1, 64);
    std::vector<std::vector<TokenId>> stored;
    int64_t partial = 0;
    for (int step = 0; step < 300; ++step) {
      std::vector<TokenId> tokens;
      if (!stored.empty() && random() % 3) {
        tokens = stored[random() % stored.size()];
        tokens.resize(random() % (tokens.size() + 1));
      }
      const size_t size = 1 + tokens.size() + random() % 20;
      while (tokens.size() < size) tokens.push_back(static_cast<TokenId>(random() % 3));
      if (tokens.size() > 64) tokens.resize(64);
      int64_t want = 0;
      for (const auto& other : stored) {
        const auto most = std::min(other.size(), tokens.size() - 1);
        const auto end = std::mismatch(tokens.begin(), tokens.begin() + most, other.begin()).first;
        want = std::max<int64_t>(want, end - tokens.begin());
      }
      partial += want % 4 != 0;
      ASSERT_EQ(kv.Match("k", tokens), want) << "step " << step;
      ASSERT_EQ(Compute(kv, 0, Ask(tokens)), want) << "step " << step;
      Finish(kv, 0, tokens);
      stored.push_back(tokens);
    }
    EXPECT_GT(partial, 50);
  }
}

}  // namespace
}  // namespace slipstream::kv
