// Hundreds of mixed requests under drawn budgets, batch sizes and pools: each gets what it would
// get alone, bit for bit.
#include <gtest/gtest.h>

#include <thread>

#include "exec/null_backend.h"
#include "executor_draw.h"

namespace slipstream::executor {
namespace {

void RunMix(uint32_t seed, bool backend_samples, ExecutorStats* sum = nullptr,
            bool host_tier = false) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Fixture fixture;
  fixture.fake.block_tokens = 1 + static_cast<int32_t>(random() % 8);
  fixture.fake.window = 1 + static_cast<int32_t>(random() % 20);
  fixture.fake.samples = backend_samples;
  fixture.config.max_num_tokens =
      1 + static_cast<int32_t>(random() % fixture.limits.max_num_tokens);
  fixture.config.max_batch_size =
      1 + static_cast<int32_t>(random() % fixture.limits.max_batch_size);
  fixture.fake.max_num_tokens = fixture.config.max_num_tokens;
  fixture.fake.max_batch_size = fixture.config.max_batch_size;
  if (random() % 2) fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  if (random() % 2) fixture.config.chunking = ChunkingPolicy::kEqualProgress;
  fixture.config.prefix_cache = random() % 4 != 0;
  fixture.config.ageing = std::chrono::milliseconds(random() % 3);
  // From a pool that barely holds the longest request to one that never binds.
  const int64_t per_sequence = (96 / fixture.fake.block_tokens + 3) * 96;
  fixture.config.kv_memory_bytes = per_sequence * (2 + random() % 8);
  if (fixture.config.prefix_cache && host_tier)
    fixture.config.host_kv_bytes = fixture.config.kv_memory_bytes * (1 + random() % 8) / 2;
  const std::unique_ptr<Executor> executor = fixture.Make();
  ASSERT_NE(executor, nullptr);

  struct Submitted {
    Request request;
    RequestId id = 0;
    bool cancelled = false;
    bool with_callback = false;
    Response answer;
  };
  std::vector<Submitted> all(120);
  std::mutex mutex;
  std::condition_variable finished;
  int open_callbacks = 0;
  for (Submitted& one : all) {
    one.request = DrawRequest(random, fixture.limits);
    one.with_callback = random() % 2;
    ResponseCallback callback;
    if (one.with_callback) {
      std::lock_guard<std::mutex> lock(mutex);
      ++open_callbacks;
      callback = [&](const Response& news) {
        std::lock_guard<std::mutex> guard(mutex);
        EXPECT_FALSE(one.answer.finished()) << "news after the end";
        one.answer.Join(news);
        if (news.finished() && --open_callbacks == 0) finished.notify_all();
      };
    }
    const Result<RequestId> id = executor->Submit(one.request, callback);
    if (!id.ok()) {
      ASSERT_EQ(id.status().code(), StatusCode::kLimitExceeded) << id.status().message();
      one.id = 0;
      std::lock_guard<std::mutex> lock(mutex);
      if (one.with_callback) --open_callbacks;
      continue;
    }
    one.id = *id;
    if (random() % 5 == 0) {
      if (random() % 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      Submitted& victim = all[random() % (&one - all.data() + 1)];
      if (victim.id != 0) {
        victim.cancelled = true;
        const Status status = executor->Cancel(victim.id);
        ASSERT_TRUE(status.ok() || status.code() == StatusCode::kNotFound);
      }
    }
  }
  int completed = 0;
  for (Submitted& one : all) {
    if (one.id == 0) continue;
    if (!one.with_callback) one.answer = Collect(*executor, one.id);
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(
        finished.wait_for(lock, std::chrono::seconds(60), [&] { return open_callbacks == 0; }));
  }
  for (const Submitted& one : all) {
    if (one.id == 0) continue;
    ExpectSame(one.answer, Alone(fixture, one.request), one.request, one.cancelled);
    completed += one.answer.finish_reason != FinishReason::kCancelled;
  }
  EXPECT_GT(completed, 40);
  const ExecutorStats stats = executor->Stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
  EXPECT_EQ(stats.requests_finished, stats.requests_submitted);
  EXPECT_EQ(stats.steps, fixture.watch->steps);
  EXPECT_LE(fixture.watch->most_rows, fixture.config.max_num_tokens);
  EXPECT_LE(fixture.watch->most_sequences, fixture.config.max_batch_size);
  if (sum == nullptr) return;
  sum->cached_tokens += stats.cached_tokens;
  sum->blocks_copied += stats.blocks_copied;
  sum->preemptions += stats.preemptions;
  sum->recomputed_tokens += stats.recomputed_tokens;
  sum->blocks_swapped_out += stats.blocks_swapped_out;
  sum->blocks_swapped_in += stats.blocks_swapped_in;
}

TEST(ExecutorMixTest, EveryRequestEqualsTheRequestAlone) {
  ExecutorStats sum;
  for (uint32_t seed = 1; seed <= 25; ++seed) RunMix(seed, false, &sum);
  // The draws reach what they are to test.
  EXPECT_GT(sum.cached_tokens, 1000);
  EXPECT_GT(sum.blocks_copied, 20);
  EXPECT_GT(sum.preemptions, 20);
  EXPECT_GT(sum.recomputed_tokens, 20);
}

TEST(ExecutorMixTest, EveryRequestEqualsTheRequestAloneWithAHostTier) {
  ExecutorStats sum;
  for (uint32_t seed = 201; seed <= 225; ++seed) RunMix(seed, false, &sum, true);
  EXPECT_GT(sum.blocks_swapped_out, 1000);
  EXPECT_GT(sum.blocks_swapped_in, 200);
  EXPECT_GT(sum.preemptions, 20);
}

TEST(ExecutorMixTest, BackendThatSamplesGivesTheSame) {
  for (uint32_t seed = 101; seed <= 104; ++seed) RunMix(seed, true);
}

// The null backend checks batches as the CPU backend does.
TEST(ExecutorMixTest, NullBackendTakesEveryBatchAndAnswersAsAlone) {
  const EngineLimits limits{
      .max_seq_len = 200, .max_batch_size = 8, .max_num_tokens = 48, .vocab_size = kFakeVocab};
  const auto make = [&](const ExecutorConfig& config) {
    auto backend = exec::CreateNullBackend(
        {.limits = limits,
         .groups = {{.bytes_per_block = 64}, {.bytes_per_block = 64, .window = 40}}});
    EXPECT_TRUE(backend.ok()) << backend.status().message();
    ExecutorParts parts;
    parts.backend = *std::move(backend);
    parts.facts = {limits, {0}, std::nullopt};
    return *CreateExecutor(std::move(parts), config);
  };
  const auto mixed = make({.kv_memory_bytes = 64 * 40});
  const auto alone = make({.kv_memory_bytes = 1 << 20, .max_batch_size = 1});
  std::mt19937 random(31);
  std::vector<std::pair<Request, RequestId>> submitted;
  for (int i = 0; i < 100; ++i) {
    Request request = DrawRequest(random, limits);
    const Result<RequestId> id = mixed->Submit(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    submitted.emplace_back(std::move(request), *id);
  }
  for (const auto& [request, id] : submitted) {
    ExpectSame(Collect(*mixed, id), Collect(*alone, *alone->Submit(request)), request, false);
  }
}

TEST(ExecutorMixTest, ManyThreadsSubmitToTwoExecutors) {
  Fixture fixture;
  const std::unique_ptr<Executor> first = fixture.Make();
  Fixture other = fixture;
  other.watch = std::make_shared<FakeWatch>();
  const std::unique_ptr<Executor> second = other.Make();
  std::vector<std::thread> clients;
  for (uint32_t c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(500 + c);
      Executor& executor = c % 2 ? *first : *second;
      for (int i = 0; i < 25; ++i) {
        const Request request = DrawRequest(random, fixture.limits);
        const Result<RequestId> id = executor.Submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        (void)executor.Stats();
        ExpectSame(Collect(executor, *id), Alone(fixture, request), request, false);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(first->Stats().requests_finished, 75);
  EXPECT_EQ(second->Stats().requests_finished, 75);
}

TEST(ExecutorMixTest, ShutdownInTheMiddleEndsEverybody) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Fixture fixture;
    fixture.config.max_batch_size = 4;
    std::unique_ptr<Executor> executor = fixture.Make();
    std::vector<std::pair<Request, RequestId>> submitted;
    for (int i = 0; i < 30; ++i) {
      Request request = DrawRequest(random, fixture.limits);
      submitted.emplace_back(request, *executor->Submit(request));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    std::thread other([&] { executor->Shutdown(); });
    executor->Shutdown();
    other.join();
    executor->Shutdown();
    EXPECT_EQ(executor->Submit(submitted[0].first).status().code(), StatusCode::kUnavailable);
    for (const auto& [request, id] : submitted) {
      ExpectSame(Collect(*executor, id), Alone(fixture, request), request, true);
    }
    const ExecutorStats stats = executor->Stats();
    EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
    EXPECT_EQ(stats.requests_finished, 30);
  }
}

}  // namespace
}  // namespace slipstream::executor
