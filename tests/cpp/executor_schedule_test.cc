// Who runs when: priorities, preemption, time limits, pause, drain, bounds of the queue.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "executor/iteration_log.h"
#include "executor/request_queue.h"
#include "executor/step_cost.h"
#include "executor_fixture.h"

namespace slipstream::executor {
namespace {

using std::chrono::milliseconds;

Request Greedy(std::vector<TokenId> prompt, int32_t max_tokens, int32_t priority = 0) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.sampling = {.max_tokens = max_tokens, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  request.priority = priority;
  return request;
}

/// Collects the order in which requests end.
class EndOrder {
 public:
  ResponseCallback Callback(int name) {
    return [this, name](const Response& response) {
      if (!response.finished()) return;
      std::lock_guard<std::mutex> lock(mutex_);
      order_.push_back(name);
      changed_.notify_all();
    };
  }
  std::vector<int> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return order_.size() >= count; });
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
};

TEST(ExecutorScheduleTest, HigherPriorityThenSoonerDeadlineStartsFirst) {
  Fixture fixture;
  fixture.config.max_batch_size = 1;
  const auto executor = fixture.Make();
  executor->Pause();
  EndOrder ends;
  Request with_deadline = Greedy({4}, 2);
  with_deadline.ttft_target = milliseconds(500);
  Request sooner = with_deadline;
  sooner.ttft_target = milliseconds(100);
  (void)executor->Submit(Greedy({1}, 2, -1), ends.Callback(0));
  (void)executor->Submit(Greedy({2}, 2), ends.Callback(1));
  (void)executor->Submit(with_deadline, ends.Callback(2));
  (void)executor->Submit(sooner, ends.Callback(3));
  (void)executor->Submit(Greedy({3}, 2, 7), ends.Callback(4));
  (void)executor->Submit(Greedy({5}, 2), ends.Callback(5));
  EXPECT_EQ(executor->Stats().waiting, 6);
  executor->Resume();
  EXPECT_EQ(ends.Wait(6), (std::vector<int>{4, 3, 2, 1, 5, 0}));
}

/// A queue of requests that are known by their arrival.
struct AgeingQueue {
  explicit AgeingQueue(int64_t ageing_us) : queue({}, ageing_us) {}

  void Add(int32_t priority, uint64_t arrival, int64_t now_us) {
    made.push_back(std::make_unique<RequestState>(facts, SamplingParams{.max_tokens = 1},
                                                  std::vector<TokenId>{1}, 0, ResponseCallback()));
    made.back()->place.rank.priority = priority;
    made.back()->place.rank.arrival = arrival;
    queue.Insert(&made, made.begin(), now_us);
  }
  std::vector<uint64_t> OrderAt(int64_t now_us) {
    queue.Age(now_us);
    std::vector<uint64_t> arrivals;
    for (const auto& request : queue) arrivals.push_back(request->place.rank.arrival);
    return arrivals;
  }

  const ModelFacts facts{.limits = Fixture().limits, .eos_token_ids = {}, .tokenizer = {}};
  RequestQueue queue;
  Requests made;
};

TEST(ExecutorScheduleTest, AgeingLetsTheLowestGoFirstInTheEnd) {
  AgeingQueue waiting(/*ageing_us=*/100);
  waiting.Add(0, 1, 0);
  waiting.Add(3, 2, 250);
  waiting.Add(3, 3, 260);
  EXPECT_EQ(waiting.OrderAt(260), (std::vector<uint64_t>{2, 3, 1}));
  EXPECT_EQ(waiting.OrderAt(299), (std::vector<uint64_t>{2, 3, 1})) << "two levels do not suffice";
  EXPECT_EQ(waiting.OrderAt(310), (std::vector<uint64_t>{1, 2, 3})) << "equal level, came first";
  EXPECT_EQ(waiting.OrderAt(355), (std::vector<uint64_t>{2, 1, 3}))
      << "the second rose in its turn";
  EXPECT_EQ(waiting.OrderAt(400), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(waiting.queue.tokens(), 3);
  waiting.queue.Take(waiting.queue.begin(), &waiting.made);
  EXPECT_EQ(waiting.queue.tokens(), 2);
  EXPECT_EQ(waiting.made.size(), 1u);
}

TEST(ExecutorScheduleTest, RequestsOfAMomentRiseTogether) {
  AgeingQueue waiting(/*ageing_us=*/6400);
  waiting.Add(0, 1, 0);
  waiting.Add(1, 2, 50);
  EXPECT_EQ(waiting.OrderAt(6399), (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(waiting.OrderAt(6400), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(waiting.OrderAt(6499), (std::vector<uint64_t>{1, 2}))
      << "the second waits for its turn";
  EXPECT_EQ(waiting.OrderAt(6500), (std::vector<uint64_t>{2, 1}));
}

TEST(ExecutorScheduleTest, BoundsOfTheQueueAreNamed) {
  Fixture fixture;
  fixture.config.max_queued_requests = 3;
  fixture.config.max_queued_tokens = 10;
  fixture.config.max_queued_bytes = 60;
  const auto executor = fixture.Make();
  executor->Pause();
  const auto refused = [&](const Request& request, const std::string& limit) {
    const auto id = executor->Submit(request);
    EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted) << id.status().message();
    EXPECT_NE(id.status().message().find(limit), std::string::npos) << id.status().message();
  };
  const RequestId first = *executor->Submit(Greedy(std::vector<TokenId>(12, 1), 2));
  refused(Greedy({1}, 2), "max_queued_tokens is 10");
  ASSERT_TRUE(executor->Cancel(first).ok());
  EXPECT_EQ(Collect(*executor, first).finish_reason, FinishReason::kCancelled);
  ASSERT_TRUE(executor->Submit(Greedy(std::vector<TokenId>(8, 1), 2)).ok());
  Request heavy = Greedy({1}, 2);
  heavy.sampling.stop_token_ids.assign(10, 5);
  refused(heavy, "max_queued_bytes is 60");
  ASSERT_TRUE(executor->Submit(Greedy({1}, 2)).ok());
  ASSERT_TRUE(executor->Submit(Greedy({1}, 2)).ok());
  refused(Greedy({1}, 2), "max_queued_requests is 3");
  EXPECT_EQ(executor->Stats().waiting_tokens, 10);
}

TEST(ExecutorScheduleTest, TimeLimitEndsWhatRunsAndWhatWaits) {
  Fixture fixture;
  fixture.config.max_batch_size = 1;
  fixture.limits.max_seq_len = 90;
  const auto executor = fixture.Make();
  fixture.watch->gate.Close();
  Request running = Greedy({1, 2}, 80);
  running.time_limit = milliseconds(30);
  Request waiting = Greedy({3}, 5);
  waiting.time_limit = milliseconds(30);
  const RequestId first = *executor->Submit(running);
  const RequestId second = *executor->Submit(waiting);
  const RequestId third = *executor->Submit(Greedy({4}, 5));
  std::this_thread::sleep_for(milliseconds(40));
  fixture.watch->gate.Open();
  const Response cut = Collect(*executor, first);
  EXPECT_EQ(cut.finish_reason, FinishReason::kTimeLimit);
  const Response whole = Alone(fixture, running);
  ASSERT_LT(cut.token_ids.size(), whole.token_ids.size());
  EXPECT_TRUE(std::equal(cut.token_ids.begin(), cut.token_ids.end(), whole.token_ids.begin()));
  const Response never = Collect(*executor, second);
  EXPECT_EQ(never.finish_reason, FinishReason::kTimeLimit);
  EXPECT_TRUE(never.token_ids.empty());
  EXPECT_EQ(Collect(*executor, third).finish_reason, FinishReason::kLength);
}

TEST(ExecutorScheduleTest, TimeLimitHoldsWhilePausedAndAsleep) {
  Fixture fixture;
  const auto executor = fixture.Make();
  executor->Pause();
  Request request = Greedy({1}, 5);
  request.time_limit = milliseconds(20);
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).finish_reason, FinishReason::kTimeLimit);
}

TEST(ExecutorScheduleTest, PauseStopsStepsAndResumeGoesOn) {
  Fixture fixture;
  const auto executor = fixture.Make();
  const Request request = Greedy({1, 2, 3}, 60);
  std::promise<void> begun;
  std::promise<Response> ended;
  Response all;
  bool once = true;
  ASSERT_TRUE(executor
                  ->Submit(request,
                           [&](const Response& news) {
                             all.Join(news);
                             if (std::exchange(once, false)) begun.set_value();
                             if (news.finished()) ended.set_value(all);
                           })
                  .ok());
  begun.get_future().wait();
  executor->Pause();
  const int64_t steps = fixture.watch->steps;
  const RequestId other = *executor->Submit(Greedy({5}, 3));
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(fixture.watch->steps, steps);
  ASSERT_TRUE(executor->Cancel(other).ok()) << "cancellation works while paused";
  EXPECT_EQ(Collect(*executor, other).finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(fixture.watch->steps, steps);
  executor->Resume();
  EXPECT_EQ(ended.get_future().get().token_ids, Alone(fixture, request).token_ids);
}

TEST(ExecutorScheduleTest, PauseFromACallbackReturnsAtOnce) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::promise<void> paused;
  std::atomic<bool> once{true};
  std::promise<void> ended;
  (void)executor->Submit(Greedy({1}, 20), [&](const Response& news) {
    if (once.exchange(false)) {
      executor->Pause();
      EXPECT_FALSE(executor->Drain());
      paused.set_value();
    }
    if (news.finished()) ended.set_value();
  });
  paused.get_future().wait();
  executor->Resume();
  ended.get_future().wait();
  EXPECT_TRUE(executor->Drain(milliseconds(5000)));
}

TEST(ExecutorScheduleTest, DrainFinishesWhatItHasAndTakesNothingNew) {
  Fixture fixture;
  fixture.config.max_batch_size = 2;
  const auto executor = fixture.Make();
  fixture.watch->gate.Close();
  std::vector<std::pair<Request, RequestId>> submitted;
  for (TokenId id = 1; id < 8; ++id) {
    const Request request = Greedy({id, 7}, 9);
    submitted.emplace_back(request, *executor->Submit(request));
  }
  EXPECT_FALSE(executor->Drain(milliseconds(5)));
  EXPECT_EQ(executor->Submit(Greedy({1}, 1)).status().code(), StatusCode::kUnavailable);
  fixture.watch->gate.Open();
  EXPECT_TRUE(executor->Drain(milliseconds(20000)));
  EXPECT_EQ(executor->Stats().requests_finished, 7);
  for (const auto& [request, id] : submitted)
    EXPECT_EQ(Collect(*executor, id).token_ids, Alone(fixture, request).token_ids);
}

TEST(ExecutorScheduleTest, SubmitManyJoinsOneStepAndRefusesEachOnItsOwn) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::vector<Request> requests = {Greedy({1, 2}, 4), Greedy({99}, 4), Greedy({3}, 4)};
  const auto results = executor->SubmitMany(requests);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1].status().code(), StatusCode::kInvalidArgument);
  for (const size_t i : {0u, 2u})
    EXPECT_EQ(Collect(*executor, *results[i]).token_ids, Alone(fixture, requests[i]).token_ids);
  const std::vector<Iteration> steps = executor->Iterations();
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].entries.size(), 2u) << "both are in the first step";
  EXPECT_EQ(steps[0].prefill_rows, 3);
  EXPECT_EQ(steps[3].decode_rows, 2);
  EXPECT_EQ(executor->Iterations(3).size(), 1u);
  EXPECT_TRUE(executor->SubmitMany({}).empty());
}

// The longest of several lives does not fit twice, so MAX_UTILIZATION has to preempt, and the
// answers do not tell.
TEST(ExecutorScheduleTest, PreemptionLeavesTheAnswersAsTheyAre) {
  Fixture fixture;
  fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  fixture.config.kv_memory_bytes = 96 * (96 / 4 + 4) * 2;
  const auto executor = fixture.Make();
  std::vector<Request> requests;
  for (TokenId id = 1; id <= 12; ++id) requests.push_back(Greedy({id, id, 3, 4, 5}, 60));
  const auto ids = executor->SubmitMany(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Response answer = Collect(*executor, *ids[i]);
    EXPECT_EQ(answer.token_ids, Alone(fixture, requests[i]).token_ids);
    EXPECT_EQ(answer.finish_reason, FinishReason::kLength) << answer.status.message();
  }
  EXPECT_GT(executor->Stats().preemptions, 0);
  EXPECT_EQ(executor->Stats().kv_blocks_free + executor->Stats().kv_blocks_cached,
            executor->Stats().kv_blocks_total);
}

TEST(ExecutorScheduleTest, HigherPriorityTakesThePlaceOfALowerOne) {
  Fixture fixture;
  fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  fixture.config.max_batch_size = 1;
  const auto executor = fixture.Make();
  EndOrder ends;
  fixture.watch->gate.Close();
  (void)executor->Submit(Greedy({1, 2}, 40), ends.Callback(0));
  fixture.watch->gate.WaitForArrival();
  (void)executor->Submit(Greedy({4}, 3), ends.Callback(1));
  (void)executor->Submit(Greedy({3}, 3, 1), ends.Callback(2));
  fixture.watch->gate.Open();
  EXPECT_EQ(ends.Wait(3), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(executor->Stats().preemptions, 1);
  int32_t logged = 0;
  for (const Iteration& step : executor->Iterations()) logged += step.preempted;
  EXPECT_EQ(logged, 1);
}

TEST(StepCostTest, FindsBaseAndSlope) {
  StepCostEstimate estimate;
  EXPECT_EQ(estimate.Get().row_us, 0);
  estimate.Observe(8, 1800);
  estimate.Observe(8, 1800);
  EXPECT_EQ(estimate.Get().row_us, 0) << "one size tells nothing of the slope";
  for (int i = 0; i < 50; ++i) {
    estimate.Observe(8, 1800);
    estimate.Observe(100, 11000);
  }
  EXPECT_NEAR(estimate.Get().row_us, 100, 1);
  EXPECT_NEAR(estimate.Get().base_us, 1000, 20);
}

TEST(IterationLogTest, KeepsTheLatest) {
  IterationLog log(3);
  for (int64_t step = 1; step <= 5; ++step) {
    Iteration iteration{.step = step};
    log.Add(&iteration);
  }
  const std::vector<Iteration> kept = log.After(0);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].step, 3);
  EXPECT_EQ(kept[2].step, 5);
  EXPECT_EQ(log.After(4).size(), 1u);
}

}  // namespace
}  // namespace slipstream::executor
