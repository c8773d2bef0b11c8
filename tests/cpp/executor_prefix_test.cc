// Requests that share a prefix: computed once, whoever comes, goes or is pushed out in between.
#include <gtest/gtest.h>

#include <thread>

#include "executor_fixture.h"

namespace slipstream::executor {
namespace {

/// Token i of the common prefix.
TokenId PrefixToken(int32_t i) { return 1 + (i * 7 + i / 11) % (kFakeVocab - 1); }

/// The common prefix, then tokens of its own.
Request WithPrefix(int32_t prefix, int32_t own, int32_t name, int32_t max_tokens = 4) {
  Request request;
  for (int32_t i = 0; i < prefix; ++i) request.prompt_token_ids.push_back(PrefixToken(i));
  for (int32_t i = 0; i < own; ++i) request.prompt_token_ids.push_back(1 + (name * 5 + i) % 40);
  request.sampling = {.max_tokens = max_tokens, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  return request;
}

Fixture LongFixture() {
  Fixture fixture;
  fixture.limits.max_seq_len = 1200;
  fixture.limits.max_num_tokens = 64;
  fixture.fake.block_tokens = 8;
  fixture.fake.window = 1200;
  fixture.fake.max_num_tokens = 64;
  fixture.config.kv_memory_bytes = 16 << 20;
  return fixture;
}

void ExpectAnswers(const Fixture& fixture, Executor& executor, const std::vector<Request>& requests,
                   const std::vector<Result<RequestId>>& ids) {
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(ids[i].ok()) << ids[i].status().message();
    const Response answer = Collect(executor, *ids[i]);
    EXPECT_EQ(answer.token_ids, Alone(fixture, requests[i]).token_ids) << "request " << i;
  }
}

TEST(ExecutorPrefixTest, EightThatArriveTogetherComputeTheirPrefixOnce) {
  const Fixture base = LongFixture();
  for (const CapacityPolicy capacity :
       {CapacityPolicy::kGuaranteedNoEvict, CapacityPolicy::kMaxUtilization}) {
    Fixture fixture = base;
    fixture.config.capacity = capacity;
    const auto executor = fixture.Make();
    std::vector<Request> requests;
    for (int32_t name = 0; name < 8; ++name) requests.push_back(WithPrefix(1000, 5, name));
    int32_t cached = 0;
    const auto ids = executor->SubmitMany(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Response answer = Collect(*executor, *ids[i]);
      EXPECT_EQ(answer.token_ids, Alone(fixture, requests[i]).token_ids) << "request " << i;
      cached += answer.cached_tokens;
    }
    EXPECT_EQ(cached, 7 * 1000);
    const ExecutorStats stats = executor->Stats();
    EXPECT_EQ(stats.prefill_tokens_computed, 1000 + 8 * 5);
    EXPECT_EQ(stats.cached_tokens, 7 * 1000);
    EXPECT_EQ(stats.preemptions, 0);
  }
}

// The second begins in the copy of a block, but the budget of the first step goes to the first: the
// copy concerns it all the same.
TEST(ExecutorPrefixTest, ACopyThatFailsEndsTheRequestThatItIsFor) {
  Fixture fixture = LongFixture();
  const auto executor = fixture.Make();
  const Request known = WithPrefix(100, 2, 0);
  const Response before = Collect(*executor, *executor->Submit(known));
  fixture.watch->fail_copies = true;
  const auto ids = executor->SubmitMany({WithPrefix(0, 300, 1), known});
  for (const Result<RequestId>& id : ids) {
    const Response failed = Collect(*executor, *id);
    EXPECT_EQ(failed.finish_reason, FinishReason::kError);
    EXPECT_EQ(failed.status.message(), "the fake was told to fail");
  }
  EXPECT_FALSE(fixture.watch->fail_copies) << "nothing was copied";
  const Response again = Collect(*executor, *executor->Submit(known));
  EXPECT_EQ(again.token_ids, before.token_ids);
  EXPECT_EQ(again.cached_tokens, 0);
}

TEST(ExecutorPrefixTest, WithoutTheCacheEachComputesItsOwn) {
  Fixture fixture = LongFixture();
  fixture.config.prefix_cache = false;
  const auto executor = fixture.Make();
  const std::vector<Request> requests = {WithPrefix(100, 5, 0), WithPrefix(100, 5, 1)};
  ExpectAnswers(fixture, *executor, requests, executor->SubmitMany(requests));
  EXPECT_EQ(executor->Stats().prefill_tokens_computed, 210);
  EXPECT_EQ(executor->Stats().cached_tokens, 0);
  EXPECT_EQ(executor->Stats().kv_blocks_free, executor->Stats().kv_blocks_total);
}

TEST(ExecutorPrefixTest, OtherSaltsAndRequestsThatOptOutShareNothing) {
  Fixture fixture = LongFixture();
  const auto executor = fixture.Make();
  const auto run = [&](Request request) {
    const Response answer = Collect(*executor, *executor->Submit(request));
    EXPECT_EQ(answer.token_ids, Alone(fixture, request).token_ids);
    return answer.cached_tokens;
  };
  Request request = WithPrefix(80, 3, 0);
  request.write_cache = false;
  EXPECT_EQ(run(request), 0);
  request.write_cache = true;
  EXPECT_EQ(run(request), 0) << "the first wrote nothing";
  EXPECT_EQ(run(request), 82) << "all but the last token";
  request.cache_salt = "other";
  EXPECT_EQ(run(request), 0);
  EXPECT_EQ(run(request), 82);
  request.read_cache = false;
  EXPECT_EQ(run(request), 0);
}

TEST(ExecutorPrefixTest, NextTurnOfAConversationReusesTheAnswer) {
  Fixture fixture = LongFixture();
  const auto executor = fixture.Make();
  Request turn = WithPrefix(50, 3, 1, /*max_tokens=*/30);
  for (int32_t i = 0; i < 5; ++i) {
    const Response answer = Collect(*executor, *executor->Submit(turn));
    EXPECT_EQ(answer.token_ids, Alone(fixture, turn).token_ids);
    // Everything that was computed: the last token of the answer never was.
    if (i > 0) {
      EXPECT_EQ(answer.cached_tokens, static_cast<int32_t>(turn.prompt_token_ids.size()) - 4 - 1);
    }
    turn.prompt_token_ids.insert(turn.prompt_token_ids.end(), answer.token_ids.begin(),
                                 answer.token_ids.end());
    for (int32_t k = 0; k < 4; ++k) turn.prompt_token_ids.push_back(1 + (i * 3 + k) % 40);
  }
  EXPECT_GT(executor->Stats().blocks_copied, 0) << "hits end inside of blocks";
}

TEST(ExecutorPrefixTest, FollowersGoOnWhenTheirProducerIsCancelled) {
  Fixture fixture = LongFixture();
  const auto executor = fixture.Make();
  std::vector<Request> requests;
  for (int32_t name = 0; name < 4; ++name) requests.push_back(WithPrefix(1000, 5, name));
  fixture.watch->gate.Close();
  const auto ids = executor->SubmitMany(requests);
  fixture.watch->gate.WaitForArrival();
  ASSERT_TRUE(executor->Cancel(*ids[0]).ok());  // in its first step: 64 tokens
  fixture.watch->gate.Open();
  EXPECT_EQ(Collect(*executor, *ids[0]).finish_reason, FinishReason::kCancelled);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(Collect(*executor, *ids[i]).token_ids, Alone(fixture, requests[i]).token_ids);
  }
  EXPECT_EQ(executor->Stats().prefill_tokens_computed, 1000 + 3 * 5)
      << "the first follower went on from the last whole block";
}

TEST(ExecutorPrefixTest, FollowersGoOnWhenTheirProducerIsPreempted) {
  Fixture fixture = LongFixture();
  fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  fixture.config.max_batch_size = 3;
  const auto executor = fixture.Make();
  std::vector<Request> requests;
  for (int32_t name = 0; name < 3; ++name) requests.push_back(WithPrefix(1000, 5, name));
  requests[1].priority = requests[2].priority = 1;
  fixture.watch->gate.Close();
  std::vector<Result<RequestId>> ids = {executor->Submit(requests[0])};
  fixture.watch->gate.WaitForArrival();
  for (const size_t i : {1u, 2u}) ids.push_back(executor->Submit(requests[i]));
  Request urgent = WithPrefix(0, 20, 9);
  urgent.priority = 2;
  requests.push_back(urgent);
  ids.push_back(executor->Submit(urgent));  // the fourth of three places: the lowest has to go
  fixture.watch->gate.Open();
  ExpectAnswers(fixture, *executor, requests, ids);
  const ExecutorStats stats = executor->Stats();
  EXPECT_EQ(stats.preemptions, 1);
  EXPECT_EQ(stats.prefill_tokens_computed, 1000 + 3 * 5 + 20);
}

TEST(ExecutorPrefixTest, AProducerIsServedInThePlaceOfItsBestFollower) {
  Fixture fixture = LongFixture();
  const auto executor = fixture.Make();
  std::vector<Request> requests = {WithPrefix(304, 5, 0), WithPrefix(0, 300, 1),
                                   WithPrefix(304, 5, 2)};
  requests[1].priority = 1;
  requests[2].priority = 2;
  fixture.watch->gate.Close();
  std::vector<Result<RequestId>> ids = {executor->Submit(requests[0])};
  fixture.watch->gate.WaitForArrival();
  ids.push_back(executor->Submit(requests[1]));
  ids.push_back(executor->Submit(requests[2]));
  fixture.watch->gate.Open();
  ExpectAnswers(fixture, *executor, requests, ids);
  // Of lower priority than the second request, the first goes before it as long as the third waits
  // for its prefix.
  const std::vector<Iteration> steps = executor->Iterations();
  ASSERT_GT(steps.size(), 4u);
  for (const size_t step : {1u, 2u, 3u}) {
    ASSERT_EQ(steps[step].entries.size(), 1u) << "step " << step;
    EXPECT_EQ(steps[step].entries[0].id, *ids[0]) << "step " << step;
  }
  EXPECT_EQ(executor->Stats().prefill_tokens_computed, 304 + 2 * 5 + 300);
}

TEST(ExecutorPrefixTest, ShortWindowsFindOnlyWhatIsResident) {
  for (const int32_t window : {1, 5, 8, 9, 40}) {
    SCOPED_TRACE(testing::Message() << "window " << window);
    Fixture fixture = LongFixture();
    fixture.fake.window = window;
    const auto executor = fixture.Make();
    std::vector<Request> requests;
    for (int32_t name = 0; name < 6; ++name)
      requests.push_back(WithPrefix(150 + name * 3, 5, name, 20));
    ExpectAnswers(fixture, *executor, requests, executor->SubmitMany(requests));
    ExpectAnswers(fixture, *executor, requests, executor->SubmitMany(requests));
    EXPECT_GT(executor->Stats().cached_tokens, 0);
  }
}

}  // namespace
}  // namespace slipstream::executor
