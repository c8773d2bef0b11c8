// One behaviour of the engine loop per test, on the paged fake.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>

#include "executor_fixture.h"

namespace slipstream::executor {
namespace {

using std::chrono::milliseconds;

Request Greedy(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.sampling = {.max_tokens = max_tokens, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  return request;
}

// A slow callback costs its own step nothing, and the requests that arrive meanwhile are let in.
TEST(ExecutorLoopTest, TellsNewsWhileTheNextStepIsInFlight) {
  Fixture fixture;
  const std::unique_ptr<Executor> executor = fixture.Make();
  std::vector<int32_t> inside;
  std::promise<void> done;
  Request request{.prompt_token_ids = {5, 6, 7}};
  request.sampling = {.max_tokens = 6, .temperature = 0.0f, .ignore_eos = true};
  const auto id = executor->Submit(request, [&](const Response& news) {
    inside.push_back(fixture.watch->inside);
    if (news.finished()) done.set_value();
  });
  ASSERT_TRUE(id.ok()) << id.status().message();
  done.get_future().wait();
  // The last is told when nothing is left to compute.
  EXPECT_EQ(inside, (std::vector<int32_t>{1, 1, 1, 1, 1, 0}));
}

TEST(ExecutorLoopTest, CallbackComesOncePerStepWithNews) {
  Fixture fixture;
  const auto executor = fixture.Make();
  const Request request = Greedy({1, 2, 3}, 10);
  std::vector<Response> news;
  std::mutex mutex;
  std::condition_variable done;
  ASSERT_TRUE(executor
                  ->Submit(request,
                           [&](const Response& response) {
                             std::lock_guard<std::mutex> lock(mutex);
                             news.push_back(response);
                             if (response.finished()) done.notify_all();
                           })
                  .ok());
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(done.wait_for(lock, std::chrono::seconds(10),
                            [&] { return !news.empty() && news.back().finished(); }));
  ASSERT_EQ(news.size(), 10u);
  const Response alone = Alone(fixture, request);
  for (size_t i = 0; i < news.size(); ++i) {
    EXPECT_EQ(news[i].token_ids, std::vector<TokenId>{alone.token_ids[i]});
    EXPECT_EQ(news[i].finished(), i == 9);
    EXPECT_EQ(news[i].prompt_tokens, 3);
    EXPECT_TRUE(news[i].logprobs.empty());
  }
  EXPECT_EQ(news.back().finish_reason, FinishReason::kLength);
  EXPECT_EQ(executor->Stats().steps, 10);
  EXPECT_EQ(executor->Stats().prefill_tokens_computed, 3);
  EXPECT_EQ(executor->Stats().generated_tokens, 10);
}

TEST(ExecutorLoopTest, SleepsWhenIdle) {
  Fixture fixture;
  const auto executor = fixture.Make();
  Collect(*executor, *executor->Submit(Greedy({1}, 3)));
  const int64_t steps = fixture.watch->steps;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(fixture.watch->steps, steps);
}

TEST(ExecutorLoopTest, NextJoinsWhatArrivedAndTimesOut) {
  Fixture fixture;
  fixture.watch->gate.Close();
  const auto executor = fixture.Make();
  const Request request = Greedy({4, 5}, 6);
  const RequestId id = *executor->Submit(request);
  const auto none = executor->Next(id, milliseconds(5));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->id, id);
  EXPECT_TRUE(none->token_ids.empty());
  EXPECT_FALSE(none->finished());
  fixture.watch->gate.Open();
  while (executor->Stats().requests_finished == 0) std::this_thread::yield();
  // The end is counted just before it is posted.
  Response all = *executor->Next(id);
  if (!all.finished()) all.Join(*executor->Next(id));
  EXPECT_EQ(all.token_ids, Alone(fixture, request).token_ids);
  EXPECT_TRUE(all.finished());
  EXPECT_EQ(executor->Next(id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(executor->Next(999).status().code(), StatusCode::kNotFound);
}

TEST(ExecutorLoopTest, ThrowingCallbackEndsItsOwnRequestOnly) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::atomic<int> calls{0};
  std::promise<Response> ended;
  const RequestId bad = *executor->Submit(Greedy({1, 2}, 50), [&](const Response& response) {
    if (response.finished()) {
      ended.set_value(response);
      throw std::runtime_error("and again");  // nobody is left to hear it
    }
    if (++calls == 3) throw std::runtime_error("no more");
  });
  const Request good = Greedy({3, 4}, 30);
  const RequestId id = *executor->Submit(good);
  EXPECT_EQ(Collect(*executor, id).token_ids, Alone(fixture, good).token_ids);
  const Response last = ended.get_future().get();
  EXPECT_EQ(last.id, bad);
  EXPECT_EQ(last.finish_reason, FinishReason::kError);
  EXPECT_NE(last.status.message().find("no more"), std::string::npos);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(executor->Stats().kv_blocks_free + executor->Stats().kv_blocks_cached,
            executor->Stats().kv_blocks_total);
  const RequestId odd = *executor->Submit(Greedy({1}, 5), [](const Response&) { throw 42; });
  while (executor->Cancel(odd).ok()) std::this_thread::yield();
  EXPECT_EQ(Collect(*executor, *executor->Submit(good)).token_ids, Alone(fixture, good).token_ids);
}

TEST(ExecutorLoopTest, CallbackMaySubmitAndCancel) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::promise<RequestId> follower;
  std::promise<Response> ended;
  RequestId first = 0;
  bool once = false;
  fixture.watch->gate.Close();
  first = *executor->Submit(Greedy({1}, 60), [&](const Response& response) {
    if (response.finished()) {
      ended.set_value(response);
    } else if (!once) {
      once = true;
      follower.set_value(*executor->Submit(Greedy({2}, 4)));
      EXPECT_TRUE(executor->Cancel(response.id).ok());
    }
  });
  fixture.watch->gate.Open();
  EXPECT_EQ(Collect(*executor, follower.get_future().get()).token_ids.size(), 4u);
  const Response last = ended.get_future().get();
  EXPECT_EQ(last.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(last.status.ok());
  EXPECT_EQ(executor->Cancel(first).code(), StatusCode::kNotFound);
}

TEST(ExecutorLoopTest, CancelFreesARunningAndAWaitingRequest) {
  Fixture fixture;
  fixture.config.max_batch_size = 1;
  const auto executor = fixture.Make();
  fixture.watch->gate.Close();
  const RequestId running = *executor->Submit(Greedy({1}, 90));
  fixture.watch->gate.WaitForArrival();
  const RequestId waiting = *executor->Submit(Greedy({2}, 5));
  const RequestId third = *executor->Submit(Greedy({3}, 5));
  EXPECT_EQ(executor->Stats().waiting, 2);
  EXPECT_EQ(executor->Stats().running, 1);
  EXPECT_TRUE(executor->Cancel(waiting).ok());
  EXPECT_TRUE(executor->Cancel(running).ok());
  fixture.watch->gate.Open();
  const Response cancelled = Collect(*executor, running);
  EXPECT_EQ(cancelled.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(cancelled.token_ids.size(), 1u)
      << "ended at the next step border, with the token of the step";
  EXPECT_TRUE(Collect(*executor, waiting).token_ids.empty());
  EXPECT_EQ(Collect(*executor, third).token_ids, Alone(fixture, Greedy({3}, 5)).token_ids);
  EXPECT_EQ(executor->Cancel(running).code(), StatusCode::kNotFound);
  EXPECT_EQ(executor->Stats().kv_blocks_free + executor->Stats().kv_blocks_cached,
            executor->Stats().kv_blocks_total);
}

TEST(ExecutorLoopTest, NanLogitsEndOneRequestAndNameThePosition) {
  Fixture fixture;
  fixture.fake.nan_token = 13;
  const auto executor = fixture.Make();
  fixture.watch->gate.Close();
  const RequestId sick = *executor->Submit(Greedy({1, 2, 13}, 5));
  Request good = Greedy({1, 2, 3}, 1);
  const RequestId well = *executor->Submit(good);
  fixture.watch->gate.Open();
  const Response error = Collect(*executor, sick);
  EXPECT_EQ(error.finish_reason, FinishReason::kError);
  EXPECT_EQ(error.status.code(), StatusCode::kInternal);
  EXPECT_NE(error.status.message().find("position 3"), std::string::npos) << error.status.message();
  EXPECT_EQ(Collect(*executor, well).token_ids, Alone(fixture, good).token_ids);
  EXPECT_EQ(executor->Stats().kv_blocks_free + executor->Stats().kv_blocks_cached,
            executor->Stats().kv_blocks_total);
}

TEST(ExecutorLoopTest, FailedStepEndsItsRequestsAndTheLoopGoesOn) {
  Fixture fixture;
  fixture.fake.fail_token = 21;
  const auto executor = fixture.Make();
  const Response error = Collect(*executor, *executor->Submit(Greedy({1, 21}, 5)));
  EXPECT_EQ(error.finish_reason, FinishReason::kError);
  EXPECT_EQ(error.status.message(), "the fake was told to fail");
  const Request good = Greedy({1, 2}, 1);
  EXPECT_EQ(Collect(*executor, *executor->Submit(good)).token_ids, Alone(fixture, good).token_ids);
  EXPECT_EQ(executor->Stats().kv_blocks_free + executor->Stats().kv_blocks_cached,
            executor->Stats().kv_blocks_total);
}

TEST(ExecutorLoopTest, EndsAtMaxSeqLen) {
  Fixture fixture;
  const auto executor = fixture.Make();
  const Response answer =
      Collect(*executor,
              *executor->Submit(Greedy({1, 2, 3, 4, 5, 6}, std::numeric_limits<int32_t>::max())));
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.token_ids.size(), 90u);
  const Response one =
      Collect(*executor, *executor->Submit(Greedy(std::vector<TokenId>(95, 3), 7)));
  EXPECT_EQ(one.token_ids.size(), 1u);
  EXPECT_EQ(one.finish_reason, FinishReason::kLength);
}

TEST(ExecutorLoopTest, EosAndStopIdsEnd) {
  Fixture fixture;
  fixture.fake.script = {5, 6, 0, 7, 8, 9};
  const auto executor = fixture.Make();
  Request request = Greedy({1}, 6);
  request.sampling.ignore_eos = false;
  const Response eos = Collect(*executor, *executor->Submit(request));
  EXPECT_EQ(eos.token_ids, (std::vector<TokenId>{5, 6, 0}));
  EXPECT_EQ(eos.stop_token, 0);
  EXPECT_EQ(eos.finish_reason, FinishReason::kStop);
  request.sampling.ignore_eos = true;
  request.sampling.stop_token_ids = {8};
  const Response stop = Collect(*executor, *executor->Submit(request));
  EXPECT_EQ(stop.token_ids, (std::vector<TokenId>{5, 6, 0, 7, 8}));
  EXPECT_EQ(stop.stop_token, 8);
}

TEST(ExecutorLoopTest, FreshSeedsDifferAreToldAndReproduce) {
  Fixture fixture;
  const auto executor = fixture.Make();
  Request request = Greedy({1}, 20);
  request.sampling.temperature = 1.5f;
  request.sampling.seed.reset();
  const Response first = Collect(*executor, *executor->Submit(request));
  const Response second = Collect(*executor, *executor->Submit(request));
  EXPECT_NE(first.seed, second.seed);
  EXPECT_NE(first.token_ids, second.token_ids);
  request.sampling.seed = first.seed;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).token_ids, first.token_ids);
}

TEST(ExecutorLoopTest, FullQueueRefuses) {
  Fixture fixture;
  fixture.config.max_batch_size = 1;
  fixture.config.max_queued_requests = 2;
  const auto executor = fixture.Make();
  fixture.watch->gate.Close();
  std::vector<RequestId> ids = {*executor->Submit(Greedy({1}, 3))};
  fixture.watch->gate.WaitForArrival();
  ids.push_back(*executor->Submit(Greedy({2}, 3)));
  ids.push_back(*executor->Submit(Greedy({3}, 3)));
  const auto refused = executor->Submit(Greedy({4}, 3));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("max_queued_requests is 2"), std::string::npos);
  fixture.watch->gate.Open();
  for (const RequestId id : ids) EXPECT_EQ(Collect(*executor, id).token_ids.size(), 3u);
}

TEST(ExecutorLoopTest, RequestThatNeverFitsThePoolIsRefused) {
  Fixture fixture;
  fixture.config.kv_memory_bytes = 96 * 6;
  const auto executor = fixture.Make();
  const auto refused = executor->Submit(Greedy({1, 2, 3}, 80));
  ASSERT_EQ(refused.status().code(), StatusCode::kLimitExceeded);
  EXPECT_NE(refused.status().message().find("KV pool"), std::string::npos);
  EXPECT_EQ(executor->Stats().requests_submitted, 0);
  EXPECT_EQ(Collect(*executor, *executor->Submit(Greedy({1}, 4))).token_ids.size(), 4u);
}

TEST(ExecutorLoopTest, ShutdownFromACallbackDoesNotHang) {
  Fixture fixture;
  const auto executor = fixture.Make();
  std::promise<Response> ended;
  ASSERT_TRUE(executor
                  ->Submit(Greedy({1}, 80),
                           [&](const Response& response) {
                             if (response.finished()) ended.set_value(response);
                             executor->Shutdown();
                           })
                  .ok());
  EXPECT_EQ(ended.get_future().get().finish_reason, FinishReason::kCancelled);
}

TEST(ExecutorLoopTest, IdleExecutorShutsDown) {
  Fixture fixture;
  const auto executor = fixture.Make();
  executor->Shutdown();
  EXPECT_EQ(executor->Submit(Greedy({1}, 1)).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(executor->Cancel(1).code(), StatusCode::kNotFound);
}

TEST(ExecutorLoopTest, ConfigBeyondTheEngineIsRefused) {
  Fixture fixture;
  fixture.config.max_num_tokens = 65;
  auto refused = fixture.TryMake();
  EXPECT_EQ(refused.status().code(), StatusCode::kLimitExceeded);
  EXPECT_NE(refused.status().message().find("max_num_tokens is 65"), std::string::npos);
  fixture.config = {.kv_memory_bytes = 1 << 20, .max_batch_size = 17};
  EXPECT_EQ(fixture.TryMake().status().code(), StatusCode::kLimitExceeded);
  fixture.config = {.kv_memory_bytes = 1 << 20, .max_batch_size = -1};
  EXPECT_EQ(fixture.TryMake().status().code(), StatusCode::kInvalidArgument);
  fixture.config = {.kv_memory_bytes = 1 << 20, .max_queued_requests = 0};
  EXPECT_EQ(fixture.TryMake().status().code(), StatusCode::kInvalidArgument);
  fixture.config = {.kv_memory_bytes = 95};
  EXPECT_EQ(fixture.TryMake().status().code(), StatusCode::kResourceExhausted);
  fixture.config = {.kv_memory_bytes = 96};
  EXPECT_TRUE(fixture.TryMake().ok());
  fixture.config = {};
  EXPECT_TRUE(fixture.TryMake().ok()) << "the default pool";
}

TEST(ExecutorLoopTest, BadRequestsAreRefusedWithFieldValueAndFix) {
  Fixture fixture;
  const auto executor = fixture.Make();
  struct Case {
    const char* says;
    std::function<void(Request&)> spoil;
    StatusCode code = StatusCode::kInvalidArgument;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Case> cases = {
      {"The prompt is empty", [](Request& r) { r.prompt_token_ids.clear(); }},
      {"Both prompt (1 bytes) and prompt_token_ids (2 ids)",
       [](Request& r) { r.prompt = std::string("x"); }},
      {"has no tokenizer",
       [](Request& r) {
         r.prompt_token_ids.clear();
         r.prompt = std::string("x");
       }},
      {"prompt_token_ids[1] is 48, outside the model's vocabulary of 48",
       [](Request& r) { r.prompt_token_ids[1] = 48; }},
      {"prompt_token_ids[0] is -1", [](Request& r) { r.prompt_token_ids[0] = -1; }},
      {"The prompt has 96 tokens; max_seq_len 96",
       [](Request& r) { r.prompt_token_ids.assign(96, 1); }, StatusCode::kLimitExceeded},
      {"max_tokens is 0", [](Request& r) { r.sampling.max_tokens = 0; }},
      {"temperature is nan", [nan](Request& r) { r.sampling.temperature = nan; }},
      {"temperature is inf", [inf](Request& r) { r.sampling.temperature = inf; }},
      {"temperature is -0.5", [](Request& r) { r.sampling.temperature = -0.5f; }},
      {"top_k is -1", [](Request& r) { r.sampling.top_k = -1; }},
      {"top_p is 0", [](Request& r) { r.sampling.top_p = 0.0f; }},
      {"top_p is 1.5", [](Request& r) { r.sampling.top_p = 1.5f; }},
      {"top_p is nan", [nan](Request& r) { r.sampling.top_p = nan; }},
      {"min_p is -0.1", [](Request& r) { r.sampling.min_p = -0.1f; }},
      {"min_p is nan", [nan](Request& r) { r.sampling.min_p = nan; }},
      {"stop holds 1 strings", [](Request& r) { r.sampling.stop = {std::string("x")}; }},
      {"stop_token_ids[0] is 1000", [](Request& r) { r.sampling.stop_token_ids = {1000}; }},
      {"priority is 1001", [](Request& r) { r.priority = 1001; }},
      {"priority is -1001", [](Request& r) { r.priority = -1001; }},
      {"cache_salt has 257 bytes", [](Request& r) { r.cache_salt.assign(257, 's'); }},
      {"ttft_target is -1 ms", [](Request& r) { r.ttft_target = milliseconds(-1); }},
      {"ttft_target is 9223372036854775807 ms",
       [](Request& r) { r.ttft_target = milliseconds::max(); }},
      {"tpot_target is -9223372036854775808 ms",
       [](Request& r) { r.tpot_target = milliseconds::min(); }},
      {"time_limit is 9223372036854775807 ms",
       [](Request& r) { r.time_limit = milliseconds::max(); }},
  };
  for (const Case& one : cases) {
    Request request = Greedy({1, 2}, 4);
    one.spoil(request);
    const auto refused = executor->Submit(request);
    ASSERT_FALSE(refused.ok()) << one.says;
    EXPECT_EQ(refused.status().code(), one.code) << one.says;
    EXPECT_NE(refused.status().message().find(one.says), std::string::npos)
        << refused.status().message();
  }
  EXPECT_EQ(executor->Stats().requests_submitted, 0);
}

}  // namespace
}  // namespace slipstream::executor
