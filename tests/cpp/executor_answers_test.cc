// Several answers of one prompt: each is the request alone with the answer's seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "executor_draw.h"

namespace slipstream::executor {
namespace {

Request Question(int32_t prompt_tokens, int32_t n) {
  Request request;
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request.prompt_token_ids.push_back(1 + (i * 5) % (kFakeVocab - 1));
  request.sampling.max_tokens = 12;
  request.sampling.seed = 11;
  request.sampling.n = n;
  return request;
}

/// The whole answers of a request that was submitted without callback, by index.
std::vector<Response> CollectAnswers(Executor& executor, RequestId id, int32_t n) {
  std::vector<Response> answers(n);
  for (;;) {
    Result<Response> news = executor.Next(id);
    if (!news.ok()) {
      ADD_FAILURE() << news.status().message();
      return answers;
    }
    const size_t index = news->index;
    const bool last = news->last;
    if (index >= answers.size() || answers[index].finished()) {
      ADD_FAILURE() << "news of answer " << index << " out of turn";
      return answers;
    }
    answers[index].Join(*std::move(news));
    if (last) return answers;
  }
}

/// The answers that a request must get: each alone, and of best_of the likeliest.
std::vector<Response> AnswersAlone(const Fixture& fixture, const Request& request) {
  const SamplingParams& sampling = request.sampling;
  std::vector<Response> answers;
  for (int32_t i = 0; i < sampling.best_of.value_or(sampling.n); ++i) {
    Request one = request;
    one.sampling.seed = AnswerSeed(*sampling.seed, i);
    if (i > 0) one.sampling.prompt_logprobs.reset();
    if (!one.sampling.logprobs) one.sampling.logprobs = 0;
    Response answer = Alone(fixture, one);
    answer.seed = *one.sampling.seed;
    answer.prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    for (const TokenLogprobs& scores : answer.logprobs) answer.cumulative_logprob += scores.logprob;
    if (!sampling.logprobs) answer.logprobs.clear();
    answers.push_back(std::move(answer));
  }
  if (static_cast<size_t>(sampling.n) < answers.size()) {
    std::stable_sort(answers.begin(), answers.end(), [](const Response& a, const Response& b) {
      if (a.status.ok() != b.status.ok()) return a.status.ok();
      return a.cumulative_logprob > b.cumulative_logprob;
    });
    answers.resize(sampling.n);
  }
  return answers;
}

void ExpectAnswers(const std::vector<Response>& got, const std::vector<Response>& want,
                   const Request& request, bool cancelled) {
  const bool ranked = request.sampling.best_of.value_or(request.sampling.n) > request.sampling.n;
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "answer " << i);
    ASSERT_TRUE(got[i].finished());
    // The order of answers that were cut short depends on where they were cut.
    if (cancelled && ranked) {
      EXPECT_TRUE(got[i].finish_reason == FinishReason::kCancelled ||
                  got[i].finish_reason == want[0].finish_reason || got[i].status.ok());
      continue;
    }
    EXPECT_EQ(got[i].seed, want[i].seed);
    Request one = request;
    one.sampling.seed = want[i].seed;
    ExpectSame(got[i], want[i], one, cancelled);
    if (got[i].finish_reason == FinishReason::kCancelled) continue;
    EXPECT_EQ(got[i].cumulative_logprob,
              request.sampling.logprobs || ranked ? want[i].cumulative_logprob : 0.0);
  }
}

void ExpectAtRest(const Executor& executor) {
  const ExecutorStats stats = executor.Stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.waiting_tokens, 0);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
  EXPECT_EQ(stats.requests_finished, stats.requests_submitted);
}

TEST(ExecutorAnswersTest, SeedsAreThoseOfTheFormula) {
  EXPECT_EQ(AnswerSeed(7, 0), 7u);
  // Philox4x32-10 in Python, key (7, 0), counter (i, 0, 1, 0).
  EXPECT_EQ(AnswerSeed(7, 1), 15676756253414598127u);
  EXPECT_EQ(AnswerSeed(7, 2), 12206977233266778298u);
  EXPECT_EQ(AnswerSeed(0x123456789ABCDEF0u, 3), 17873552294643734322u);
}

TEST(ExecutorAnswersTest, PromptIsComputedOnceWithoutAnyCache) {
  for (const CapacityPolicy capacity :
       {CapacityPolicy::kGuaranteedNoEvict, CapacityPolicy::kMaxUtilization}) {
    Fixture fixture;
    fixture.config.prefix_cache = false;
    fixture.config.capacity = capacity;
    const auto executor = fixture.Make();
    const Request request = Question(22, 8);
    const auto id = executor->Submit(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    ExpectAnswers(CollectAnswers(*executor, *id, 8), AnswersAlone(fixture, request), request,
                  false);
    const ExecutorStats stats = executor->Stats();
    EXPECT_EQ(stats.prefill_tokens_computed, 22);
    EXPECT_EQ(stats.generated_tokens, [&] {
      int64_t tokens = 0;
      for (const Response& one : AnswersAlone(fixture, request)) tokens += one.token_ids.size();
      return tokens;
    }());
    EXPECT_GT(stats.blocks_copied, 0);  // the block that the prompt ends in
    EXPECT_EQ(stats.requests_finished, 1);
    ExpectAtRest(*executor);
  }
}

TEST(ExecutorAnswersTest, BestOfGivesTheLikeliestAtTheEnd) {
  Fixture fixture;
  const auto executor = fixture.Make();
  Request request = Question(9, 3);
  request.sampling.best_of = 7;
  std::mutex mutex;
  std::condition_variable done;
  std::vector<Response> told;
  const auto id = executor->Submit(request, [&](const Response& news) {
    const std::lock_guard<std::mutex> guard(mutex);
    told.push_back(news);
    if (news.last) done.notify_all();
  });
  ASSERT_TRUE(id.ok()) << id.status().message();
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(done.wait_for(lock, std::chrono::seconds(60),
                            [&] { return !told.empty() && told.back().last; }));
  ASSERT_EQ(told.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(told[i].index, i);
  EXPECT_GE(told[0].cumulative_logprob, told[1].cumulative_logprob);
  EXPECT_GE(told[1].cumulative_logprob, told[2].cumulative_logprob);
  ExpectAnswers(told, AnswersAlone(fixture, request), request, false);
}

TEST(ExecutorAnswersTest, RefusesWhatCannotBe) {
  Fixture fixture;
  fixture.config.max_batch_size = 4;
  const auto executor = fixture.Make();
  const auto code = [&](int32_t n, std::optional<int32_t> best_of) {
    Request request = Question(5, n);
    request.sampling.best_of = best_of;
    return executor->Submit(request).status();
  };
  EXPECT_EQ(code(0, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(5, {}).code(), StatusCode::kLimitExceeded);
  EXPECT_NE(code(5, {}).message().find("n is 5; max_batch_size is 4"), std::string::npos);
  EXPECT_EQ(code(1, 5).code(), StatusCode::kLimitExceeded);
  EXPECT_EQ(executor->Stats().requests_submitted, 0);
}

TEST(ExecutorAnswersTest, CancelWhileThePromptWaitsEndsEveryAnswer) {
  Fixture fixture;
  const auto executor = fixture.Make();
  executor->Pause();
  for (const std::optional<int32_t> best_of :
       {std::optional<int32_t>(), std::optional<int32_t>(6)}) {
    Request request = Question(5, 4);
    request.sampling.best_of = best_of;
    const auto id = executor->Submit(request);
    ASSERT_TRUE(id.ok());
    ASSERT_TRUE(executor->Cancel(*id).ok());
    for (const Response& answer : CollectAnswers(*executor, *id, 4))
      EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
    EXPECT_EQ(executor->Next(*id).status().code(), StatusCode::kNotFound);
  }
  ExpectAtRest(*executor);
}

TEST(ExecutorAnswersTest, FailedStepEndsEveryAnswerAndNothingElse) {
  Fixture fixture;
  fixture.fake.fail_token = 3;
  const auto executor = fixture.Make();
  Request bad = Question(6, 3);
  bad.prompt_token_ids.back() = 3;
  const auto id = executor->Submit(bad);
  ASSERT_TRUE(id.ok());
  for (const Response& answer : CollectAnswers(*executor, *id, 3))
    EXPECT_EQ(answer.status.code(), StatusCode::kInternal);
  ExpectAtRest(*executor);
}

TEST(ExecutorAnswersTest, ThrowingCallbackEndsTheAnswersThatItIsToldOf) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::mutex mutex;
  std::vector<Response> ends;
  const auto id = executor->Submit(Question(6, 4), [&](const Response& news) {
    const std::lock_guard<std::mutex> guard(mutex);
    if (news.finished()) ends.push_back(news);
    throw std::runtime_error("no");
  });
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(executor->Drain(std::chrono::seconds(60)));
  const std::lock_guard<std::mutex> guard(mutex);
  ASSERT_EQ(ends.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(ends[i].last, i == 3);
  ExpectAtRest(*executor);
}

void RunMix(uint32_t seed, ExecutorStats* sum) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Fixture fixture;
  fixture.fake.block_tokens = 1 + static_cast<int32_t>(random() % 8);
  fixture.fake.window = 1 + static_cast<int32_t>(random() % 20);
  fixture.fake.samples = random() % 4 == 0;
  fixture.config.max_batch_size = 3 + static_cast<int32_t>(random() % 14);
  fixture.config.max_num_tokens = 1 + static_cast<int32_t>(random() % 64);
  fixture.fake.max_num_tokens = fixture.config.max_num_tokens;
  fixture.fake.max_batch_size = fixture.config.max_batch_size;
  if (random() % 2) fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  if (random() % 2) fixture.config.chunking = ChunkingPolicy::kEqualProgress;
  fixture.config.prefix_cache = random() % 3 != 0;
  fixture.config.ageing = std::chrono::milliseconds(random() % 3);
  const int64_t per_sequence = (96 / fixture.fake.block_tokens + 3) * 96;
  fixture.config.kv_memory_bytes = per_sequence * (2 + random() % 8);
  const std::unique_ptr<Executor> executor = fixture.Make();
  struct Submitted {
    Request request;
    RequestId id = 0;
    bool cancelled = false;
  };
  std::vector<Submitted> all(60);
  for (Submitted& one : all) {
    one.request = DrawRequest(random, fixture.limits);
    one.request.sampling.n = 1 + static_cast<int32_t>(random() % 3);
    if (random() % 3 == 0) {
      one.request.sampling.best_of =
          one.request.sampling.n +
          static_cast<int32_t>(random() % (fixture.config.max_batch_size - 2));
    }
    const Result<RequestId> id = executor->Submit(one.request);
    if (!id.ok()) {
      ASSERT_EQ(id.status().code(), StatusCode::kLimitExceeded) << id.status().message();
      continue;
    }
    one.id = *id;
    Submitted& victim = all[random() % (&one - all.data() + 1)];
    if (random() % 6 == 0 && victim.id != 0) {
      victim.cancelled = true;
      const Status status = executor->Cancel(victim.id);
      ASSERT_TRUE(status.ok() || status.code() == StatusCode::kNotFound);
    }
  }
  for (const Submitted& one : all) {
    if (one.id == 0) continue;
    ExpectAnswers(CollectAnswers(*executor, one.id, one.request.sampling.n),
                  AnswersAlone(fixture, one.request), one.request, one.cancelled);
    if (testing::Test::HasFailure()) return;
  }
  ExpectAtRest(*executor);
  const ExecutorStats stats = executor->Stats();
  EXPECT_EQ(stats.steps, fixture.watch->steps);
  sum->preemptions += stats.preemptions;
  sum->blocks_copied += stats.blocks_copied;
  sum->cached_tokens += stats.cached_tokens;
}

TEST(ExecutorAnswersTest, EveryAnswerEqualsTheRequestAlone) {
  ExecutorStats sum;
  for (uint32_t seed = 1; seed <= 25; ++seed) RunMix(seed, &sum);
  // The draws reach what they are to test.
  EXPECT_GT(sum.preemptions, 20);
  EXPECT_GT(sum.blocks_copied, 100);
  EXPECT_GT(sum.cached_tokens, 500);
}

}  // namespace
}  // namespace slipstream::executor
