// Cached KV out of an executor and into another, its events, how firmly it is kept.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "executor_fixture.h"

namespace slipstream::executor {
namespace {

Request Greedy(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.sampling = {.max_tokens = max_tokens, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  return request;
}

std::vector<TokenId> Prompt(int32_t count, int32_t name) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(1 + (name * 13 + i * 7 + i / 5) % 40);
  return tokens;
}

void ExpectIdle(const Executor& executor) {
  const ExecutorStats stats = executor.Stats();
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
}

/// Prompt and answer of a request that has run.
std::vector<TokenId> Talk(Executor& executor, const Request& request) {
  std::vector<TokenId> tokens = request.prompt_token_ids;
  const Response answer = Collect(executor, *executor.Submit(request));
  tokens.insert(tokens.end(), answer.token_ids.begin(), answer.token_ids.end());
  return tokens;
}

TEST(ExecutorKvTransferTest, AnotherExecutorGoesOnWithoutComputingAgain) {
  for (const uint64_t host : {0, 1 << 14}) {
    Fixture fixture;
    fixture.config.host_kv_bytes = host;
    const auto first = fixture.Make();
    std::vector<TokenId> tokens = Talk(*first, Greedy(Prompt(30, 1), 9));
    const Result<KvImage> image = first->ExportKv(tokens);
    ASSERT_TRUE(image.ok()) << image.status().message();
    EXPECT_EQ(image->tokens, 38) << "the last token was never computed";
    ExpectIdle(*first);

    Fixture other = fixture;
    other.watch = std::make_shared<FakeWatch>();
    const auto second = other.Make();
    const Result<int64_t> imported = second->ImportKv(image->bytes);
    ASSERT_TRUE(imported.ok()) << imported.status().message();
    EXPECT_EQ(*imported, 38);
    ExpectIdle(*second);
    for (const TokenId token : Prompt(6, 2)) tokens.push_back(token);
    const Request next = Greedy(tokens, 8);
    const Response answer = Collect(*second, *second->Submit(next));
    EXPECT_EQ(answer.token_ids, Alone(fixture, next).token_ids);
    EXPECT_EQ(answer.cached_tokens, 38);
    EXPECT_EQ(second->Stats().prefill_tokens_computed, 7);
  }
}

TEST(ExecutorKvTransferTest, TheSaltAndThePrefixDecideWhatIsFound) {
  Fixture fixture;
  const auto executor = fixture.Make();
  Request request = Greedy(Prompt(20, 1), 4);
  request.cache_salt = "a";
  std::vector<TokenId> tokens = Talk(*executor, request);
  EXPECT_EQ(executor->ExportKv(tokens).status().code(), StatusCode::kNotFound);
  tokens.resize(30, 5);
  const Result<KvImage> image = executor->ExportKv(tokens, "a");
  ASSERT_TRUE(image.ok()) << image.status().message();
  EXPECT_EQ(image->tokens, 23);
  // Under another salt it is another prefix.
  ASSERT_TRUE(executor->ImportKv(image->bytes, "b").ok());
  request.cache_salt = "b";
  request.prompt_token_ids = tokens;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).cached_tokens, 23);
  ASSERT_TRUE(executor->DropCache("b").ok());
  EXPECT_EQ(executor->ExportKv(tokens, "b").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(executor->ExportKv(tokens, "a").ok());
  ASSERT_TRUE(executor->DropCache().ok());
  EXPECT_EQ(executor->ExportKv(tokens, "a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(executor->Stats().kv_blocks_free, executor->Stats().kv_blocks_total);
}

TEST(ExecutorKvTransferTest, RefusesWhatCannotBe) {
  Fixture fixture;
  const auto executor = fixture.Make();
  const std::vector<TokenId> tokens = Talk(*executor, Greedy(Prompt(20, 1), 4));
  const KvImage image = *executor->ExportKv(tokens);
  const auto code = [](const auto& result) { return result.status().code(); };
  EXPECT_EQ(code(executor->ExportKv({})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(executor->ExportKv(std::vector<TokenId>{kFakeVocab})),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(executor->ExportKv(tokens, std::string(257, 's'))), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(executor->ImportKv({})), StatusCode::kCorruptFile);
  for (size_t at = 0; at < image.bytes.size(); ++at) {
    KvImage damaged = image;
    damaged.bytes[at] ^= std::byte{4};
    const Result<int64_t> imported = executor->ImportKv(damaged.bytes);
    EXPECT_FALSE(imported.ok()) << "byte " << at;
  }
  Fixture other = fixture;
  other.build_id = "another";
  EXPECT_EQ(code(other.Make()->ImportKv(image.bytes)), StatusCode::kIncompatible);
  other = fixture;
  other.config.prefix_cache = false;
  EXPECT_EQ(code(other.Make()->ImportKv(image.bytes)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(other.Make()->ExportKv(tokens)), StatusCode::kInvalidArgument);
  ExpectIdle(*executor);

  executor->Pause();
  EXPECT_TRUE(executor->ExportKv(tokens).ok()) << "a step is not needed";
  executor->Resume();
  std::promise<StatusCode> inside;
  const auto id = executor->Submit(Greedy({3}, 1), [&](const Response&) {
    EXPECT_EQ(executor->Next(1).status().code(), StatusCode::kInvalidArgument);
    inside.set_value(executor->ExportKv(tokens).status().code());
  });
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(inside.get_future().get(), StatusCode::kInvalidArgument);
  executor->Shutdown();
  EXPECT_EQ(code(executor->ExportKv(tokens)), StatusCode::kUnavailable);
  EXPECT_EQ(code(executor->ImportKv(image.bytes)), StatusCode::kUnavailable);
  EXPECT_EQ(executor->DropCache().code(), StatusCode::kUnavailable);
}

// A pool whose blocks are all promised: nothing is taken from who runs.
TEST(ExecutorKvTransferTest, AFullPoolRefusesAnImportAndGoesOn) {
  Fixture fixture;
  const auto source = fixture.Make();
  const std::vector<TokenId> tokens = Talk(*source, Greedy(Prompt(60, 1), 20));
  const KvImage image = *source->ExportKv(tokens);
  fixture.config.kv_memory_bytes = 26 * (64 + 32);
  fixture.watch = std::make_shared<FakeWatch>();
  const auto small = fixture.Make();
  const Request running = Greedy(Prompt(40, 2), 50);
  Response answer;
  std::promise<void> paused, done;
  const auto id = small->Submit(running, [&](const Response& news) {
    if (answer.token_ids.empty()) {
      small->Pause();
      paused.set_value();
    }
    answer.Join(news);
    if (news.finished()) done.set_value();
  });
  ASSERT_TRUE(id.ok()) << id.status().message();
  paused.get_future().wait();
  const Status refused = small->ImportKv(image.bytes).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.message();
  small->Resume();
  done.get_future().wait();
  EXPECT_EQ(answer.token_ids, Alone(fixture, running).token_ids);
  ExpectIdle(*small);
  EXPECT_TRUE(small->ImportKv(image.bytes).ok()) << "there is room when nothing runs";
}

TEST(ExecutorKvTransferTest, WhileOthersRunNobodysAnswerChanges) {
  Fixture fixture;
  fixture.config.kv_memory_bytes = 60 * (64 + 32);
  fixture.config.host_kv_bytes = 40 * (64 + 32);
  fixture.config.capacity = CapacityPolicy::kMaxUtilization;
  fixture.config.max_batch_size = 4;
  const auto executor = fixture.Make();
  std::atomic<bool> stop{false};
  std::atomic<int> moved{0};
  std::thread mover([&] {
    for (int32_t name = 0; !stop; name = (name + 1) % 5) {
      const Result<KvImage> image = executor->ExportKv(Prompt(40, name));
      if (!image.ok()) continue;
      if (name == 0) {
        EXPECT_TRUE(executor->DropCache().ok());
      }
      moved += executor->ImportKv(image->bytes).ok();
    }
  });
  std::vector<std::thread> clients;
  for (int32_t c = 0; c < 3; ++c) {
    clients.emplace_back([&, c] {
      for (int32_t i = 0; i < 40; ++i) {
        const Request request = Greedy(Prompt(10 + (i * 7 + c) % 31, (i + c) % 5), 1 + i % 12);
        const auto id = executor->Submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        EXPECT_EQ(Collect(*executor, *id).token_ids, Alone(fixture, request).token_ids);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  mover.join();
  EXPECT_GT(moved, 0);
  ExpectIdle(*executor);
}

TEST(ExecutorKvTransferTest, EventsTellWhatIsCached) {
  Fixture fixture;
  EXPECT_EQ(fixture.Make()->TakeKvEvents().status().code(), StatusCode::kInvalidArgument);
  fixture.config.max_kv_events = 1000;
  const auto executor = fixture.Make();
  Request request = Greedy(Prompt(20, 1), 4);
  request.cache_salt = "tenant";
  const std::vector<TokenId> tokens = Talk(*executor, request);
  const Result<KvEvents> stored = executor->TakeKvEvents();
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  std::vector<TokenId> told;
  int64_t blocks = 0;
  for (const KvEvent& event : stored->events) {
    if (event.kind == KvEvent::Kind::kStored && event.group == 0) {
      EXPECT_EQ(event.cache_salt, "tenant");
      told.insert(told.end(), event.token_ids.begin(), event.token_ids.end());
      blocks += static_cast<int64_t>(event.hashes.size());
    }
  }
  EXPECT_EQ(told, std::vector<TokenId>(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(blocks, 6);
  EXPECT_EQ(stored->dropped, 0);
  EXPECT_TRUE(executor->TakeKvEvents()->events.empty());
  ASSERT_TRUE(executor->DropCache("ten").ok());
  int64_t removed = 0;
  const Result<KvEvents> dropped = executor->TakeKvEvents();
  ASSERT_TRUE(dropped.ok()) << dropped.status().message();
  for (const KvEvent& event : dropped->events) {
    EXPECT_EQ(event.kind, KvEvent::Kind::kRemoved);
    if (event.group == 0) removed += static_cast<int64_t>(event.hashes.size());
  }
  EXPECT_EQ(removed, 6);

  fixture.config.max_kv_events = 1;
  const auto forgetful = fixture.Make();
  Talk(*forgetful, request);
  const Result<KvEvents> few = forgetful->TakeKvEvents();
  EXPECT_EQ(few->events.size(), 1u);
  EXPECT_GT(few->dropped, 0);
}

TEST(ExecutorKvTransferTest, WhatIsRetainedOutlivesWhatCameLater) {
  Fixture fixture;
  fixture.config.kv_memory_bytes = 40 * (64 + 32);
  for (const int32_t priority : {100, 0}) {
    const auto executor = fixture.Make();
    Request kept = Greedy(Prompt(40, 1), 1);
    kept.retention = {{.priority = priority}};
    Talk(*executor, kept);
    Talk(*executor, Greedy(Prompt(40, 2), 1));
    for (int32_t name = 3; name < 9; ++name) Talk(*executor, Greedy(Prompt(40, name), 1));
    const int32_t cached = Collect(*executor, *executor->Submit(kept)).cached_tokens;
    if (priority == 100) {
      EXPECT_EQ(cached, 39);
    } else {
      EXPECT_EQ(cached, 0);
    }
  }
}

TEST(ExecutorKvTransferTest, RetentionIsChecked) {
  Fixture fixture;
  const auto executor = fixture.Make();
  using std::chrono::milliseconds;
  for (const KvRetention& bad :
       {KvRetention{.first = -1}, KvRetention{.first = 5, .end = 5}, KvRetention{.priority = 101},
        KvRetention{.priority = -1}, KvRetention{.duration = milliseconds(-1)}}) {
    Request request = Greedy({1, 2}, 1);
    request.retention = {{}, bad};
    const Status status = executor->Submit(request).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("retention[1]"), std::string::npos) << status.message();
  }
  Request request = Greedy({1, 2}, 1);
  request.retention.resize(1025);
  EXPECT_NE(executor->Submit(request).status().message().find("1024"), std::string::npos);
}

}  // namespace
}  // namespace slipstream::executor
