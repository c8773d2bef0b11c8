// The n-th allocation fails, for every n from the first to the last, once and from then on: each
// call of the API gives a clean status or does its work, and what was made before stays usable.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fault_injection.h"
#include "slipstream/executor.h"
#include "tiny_engine_file.h"

namespace slipstream {
namespace {

using fault::Inject;
using fault::Point;

const ExecutorConfig kConfig{.kv_memory_bytes = 1 << 20};
// Of which two long prompts do not fit the first pool.
const ExecutorConfig kTiers{.kv_memory_bytes = 36 << 10, .host_kv_bytes = 1 << 20};
constexpr std::chrono::seconds kHang{30};

// The smallest model with both kinds of cache: its file is read thousands of times.
exec::TinyConfig Small() {
  return {.layers = 2,
          .hidden = 16,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 8,
          .rotary_dim = 8,
          .mlp = 16};
}

Request Question() {
  Request request{.prompt = "ab abc <s> what?"};
  request.sampling.max_tokens = 6;
  request.sampling.temperature = 0.8f;
  request.sampling.seed = 7;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 3;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.stop = {"never in the text"};
  return request;
}

class MemoryFaultTest : public testing::Test {
 protected:
  const TinyEngineFile file_{"fault_memory_test", 1, Small()};

  /// `attempt` makes something of what is there and tells how that went; without fault it succeeds.
  static void FailEach(const std::function<Status()>& attempt) {
    ASSERT_TRUE(attempt().ok());  // also fills what is kept for later calls
    for (const int64_t count : {int64_t{1}, Inject::kForever}) {
      int64_t refused = 0;
      bool hit = true;
      for (int64_t n = 0; hit; ++n) {
        std::optional<Status> status;
        {
          const Inject inject(Point::kAllocate, n, count);
          status.emplace(attempt());
          hit = inject.hit();
        }
        if (!hit) {
          EXPECT_TRUE(status->ok()) << status->message();
        } else if (!status->ok()) {
          ++refused;
          EXPECT_EQ(status->code(), StatusCode::kResourceExhausted)
              << "allocation " << n << ": " << status->message();
          EXPECT_FALSE(status->message().empty()) << "allocation " << n;
        }
        if (HasFailure()) return;
      }
      EXPECT_GT(refused, 0);
      EXPECT_TRUE(attempt().ok()) << "afterwards";
    }
  }
};

TEST_F(MemoryFaultTest, LoadingAnEngine) {
  FailEach([&] { return Engine::Load(file_.path()).status(); });
}

TEST_F(MemoryFaultTest, MissingAndDamagedFiles) {
  // The message itself needs memory: no memory is an answer too, but nothing else.
  const std::string missing = file_.path() + ".missing";
  for (int64_t n = 0; n < 50; ++n) {
    std::optional<Status> status;
    {
      const Inject inject(Point::kAllocate, n, Inject::kForever);
      status.emplace(Engine::Load(missing).status());
    }
    EXPECT_TRUE(status->code() == StatusCode::kNotFound ||
                status->code() == StatusCode::kResourceExhausted);
  }
}

TEST_F(MemoryFaultTest, CreatingARuntimeAModelAndAnExecutor) {
  const auto engine = Engine::Load(file_.path());
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  FailEach([] { return Runtime::Create({.threads = 3}).status(); });
  const auto runtime = Runtime::Create({.threads = 2});
  ASSERT_TRUE(runtime.ok());
  FailEach([&] { return Model::Create(*runtime, *engine).status(); });
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok());
  FailEach([&] { return Executor::Create(*model, kConfig).status(); });
  FailEach([&] { return Executor::Create(*model, kTiers).status(); });
}

TEST_F(MemoryFaultTest, TokenizerAndChatTemplate) {
  const auto engine = Engine::Load(file_.path());
  ASSERT_TRUE(engine.ok());
  FailEach([&] { return engine->tokenizer().Encode("ab abc <s> what?").status(); });
  FailEach([&] {
    return engine->ApplyChatTemplate(R"([{"role": "user", "content": "Hello"}])").status();
  });
  FailEach([&] {
    const Status status = engine->tokenizer().Encode("\xff").status();
    return status.code() == StatusCode::kInvalidArgument ? Status::Ok() : status;
  });
}

class RequestFaultTest : public MemoryFaultTest {
 protected:
  void SetUp() override {
    Start(kConfig);
    expected_ = Fetch(*executor_->Submit(Question()));
    ASSERT_TRUE(expected_.status.ok());
    ASSERT_EQ(expected_.token_ids.size(), 6u);
  }

  void Start(const ExecutorConfig& config) {
    auto engine = Engine::Load(file_.path());
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    auto runtime = Runtime::Create({.threads = 2});
    ASSERT_TRUE(runtime.ok());
    auto model = Model::Create(*runtime, *engine);
    ASSERT_TRUE(model.ok());
    auto executor = Executor::Create(*model, config);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    executor_ = *std::move(executor);
  }

  /// The last response of a request, with the whole answer in it.
  Response Fetch(RequestId id) {
    Response all;
    for (;;) {
      auto news = executor_->Next(id, kHang);
      if (!news.ok() || news->finish_reason == FinishReason::kNone) {
        if (news.ok() && !news->token_ids.empty()) {
          all.text += news->text;
          all.token_ids.insert(all.token_ids.end(), news->token_ids.begin(), news->token_ids.end());
          continue;
        }
        ADD_FAILURE() << (news.ok() ? "no answer: the executor hangs" : news.status().message());
        return all;
      }
      news->text = all.text + news->text;
      news->token_ids.insert(news->token_ids.begin(), all.token_ids.begin(), all.token_ids.end());
      return *std::move(news);
    }
  }

  /// A client may have its answer before the loop has put the request away.
  void ExpectIdle() {
    ExecutorStats stats = executor_->Stats();
    for (int i = 0; i < 10000 && stats.running + stats.waiting > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stats = executor_->Stats();
    }
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
  }

  std::unique_ptr<Executor> executor_;
  Response expected_;
};

TEST_F(RequestFaultTest, EveryAllocationOfARequest) {
  for (const int64_t count : {int64_t{1}, int64_t{3}}) {
    int64_t refused = 0, failed = 0, served = 0;
    bool hit = true;
    for (int64_t n = 0; hit && !HasFailure(); ++n) {
      Request question = Question();
      Result<RequestId> id = RequestId{0};
      Result<Response> end = Response();
      std::vector<Response> news;
      news.reserve(100);
      {
        const Inject inject(Point::kAllocate, n, count);
        id = executor_->Submit(std::move(question));
        // Next may itself be out of memory: then it is called again.
        while (id.ok() && news.size() < 100) {
          end = executor_->Next(*id, kHang);
          if (end.ok() && !end->finished() && end->token_ids.empty()) break;
          if (end.ok()) news.push_back(*std::move(end));
          if (!news.empty() && news.back().finished()) break;
        }
        hit = inject.hit();
      }
      if (!id.ok()) {
        ++refused;
        EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted) << id.status().message();
      } else if (news.empty() || !news.back().finished()) {
        ADD_FAILURE() << "allocation " << n << ": the request never ends";
      } else if (news.back().finish_reason == FinishReason::kError) {
        ++failed;
        EXPECT_EQ(news.back().status.code(), StatusCode::kResourceExhausted)
            << news.back().status.message();
      } else {
        ++served;
        std::vector<TokenId> ids;
        std::string text;
        for (const Response& response : news) {
          ids.insert(ids.end(), response.token_ids.begin(), response.token_ids.end());
          text += response.text;
        }
        EXPECT_EQ(ids, expected_.token_ids) << "allocation " << n;
        EXPECT_EQ(text, expected_.text) << "allocation " << n;
      }
      ExpectIdle();
    }
    EXPECT_GT(refused, 10);
    EXPECT_GT(failed, 10);
    EXPECT_GT(served, 0);
  }
  EXPECT_EQ(Fetch(*executor_->Submit(Question())).token_ids, expected_.token_ids);
}

// Other prompts push the first out of the pool before each fault, so that blocks move both
// ways in it.
TEST_F(RequestFaultTest, EveryAllocationOfARequestThatMovesBlocks) {
  Start(kTiers);
  const auto ask = [](TokenId first) {
    Request request;
    for (TokenId i = 0; i < 90; ++i) request.prompt_token_ids.push_back((first + i * 7) % 40 + 3);
    request.sampling = {.max_tokens = 4, .temperature = 0.0f, .ignore_eos = true};
    return request;
  };
  const Result<RequestId> fits = executor_->Submit(ask(0));
  ASSERT_TRUE(fits.ok()) << fits.status().message();
  const Response first = Fetch(*fits);
  const Response other = Fetch(*executor_->Submit(ask(5)));
  ASSERT_EQ(first.token_ids.size(), 4u) << first.status.message();
  int64_t failed = 0, served = 0;
  bool hit = true;
  for (int64_t n = 0; hit && !HasFailure(); ++n) {
    EXPECT_EQ(Fetch(*executor_->Submit(ask(5))).token_ids, other.token_ids);
    for (const TokenId another : {9, 13}) Fetch(*executor_->Submit(ask(another)));
    const Result<RequestId> id = executor_->Submit(ask(0));
    Response answer;
    {
      const Inject inject(Point::kAllocate, n, 1);
      while (id.ok() && !answer.finished()) {
        Result<Response> news = executor_->Next(*id, kHang);
        if (news.ok()) answer = *std::move(news);
      }
      hit = inject.hit();
    }
    ASSERT_TRUE(id.ok());
    if (answer.finish_reason == FinishReason::kError) {
      ++failed;
      EXPECT_EQ(answer.status.code(), StatusCode::kResourceExhausted) << answer.status.message();
    } else {
      ++served;
      ASSERT_FALSE(answer.token_ids.empty());
      EXPECT_EQ(answer.token_ids.back(), first.token_ids.back()) << "allocation " << n;
    }
    ExpectIdle();
    // What the fault left in the cache is right.
    EXPECT_EQ(Fetch(*executor_->Submit(ask(0))).token_ids, first.token_ids) << "allocation " << n;
  }
  EXPECT_GT(failed, 5);
  EXPECT_GT(served, 0);
  EXPECT_GT(executor_->Stats().blocks_swapped_in, 20);
  EXPECT_GT(executor_->Stats().blocks_swapped_out, 20);
}

TEST_F(RequestFaultTest, EveryAllocationOfSubmitMany) {
  for (const int64_t count : {int64_t{1}, Inject::kForever}) {
    int64_t queued = 0, refused = 0;
    bool hit = true;
    for (int64_t n = 0; hit && !HasFailure(); ++n) {
      executor_->Pause();
      std::vector<Request> requests(3, Question());
      std::vector<Result<RequestId>> ids;
      {
        const Inject inject(Point::kAllocate, n, count);
        ids = executor_->SubmitMany(std::move(requests));
        hit = inject.hit();
      }
      // What was refused does not run, and what was not answers.
      int32_t accepted = 0;
      for (const Result<RequestId>& id : ids) {
        accepted += id.ok();
        if (!id.ok()) {
          EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
        }
      }
      EXPECT_EQ(executor_->Stats().waiting, accepted) << "allocation " << n;
      queued += accepted;
      refused += accepted < 3;
      executor_->Resume();
      for (const Result<RequestId>& id : ids) {
        if (!id.ok()) continue;
        EXPECT_EQ(Fetch(*id).token_ids, expected_.token_ids) << "allocation " << n;
      }
      ExpectIdle();
    }
    EXPECT_GT(refused, 10);
    EXPECT_GT(queued, 3);
  }
}

TEST_F(RequestFaultTest, NoMemoryAtAllWhileRequestsRunAndWait) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    std::vector<RequestId> ids;
    for (int i = 0; i < 30; ++i) {
      Request request = Question();
      request.sampling.max_tokens = 300;
      ids.push_back(*executor_->Submit(std::move(request)));
    }
    {
      const Inject inject(Point::kAllocate, round * 7, Inject::kForever);
      for (const RequestId id : ids) (void)executor_->Cancel(id);
      for (int spins = 0; spins < 5000 && executor_->Stats().running > 0; ++spins)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const RequestId id : ids) {
      const Response end = Fetch(id);
      EXPECT_TRUE(end.finished());
      if (end.finish_reason == FinishReason::kError) {
        EXPECT_EQ(end.status.code(), StatusCode::kResourceExhausted) << end.status.message();
      }
    }
    ExpectIdle();
  }
  EXPECT_EQ(Fetch(*executor_->Submit(Question())).token_ids, expected_.token_ids);
}

TEST_F(RequestFaultTest, ShutdownNeedsNoMemory) {
  std::vector<RequestId> ids;
  for (int i = 0; i < 30; ++i) {
    Request request = Question();
    request.sampling.max_tokens = 500;
    ids.push_back(*executor_->Submit(std::move(request)));
  }
  {
    const Inject inject(Point::kAllocate, 0, Inject::kForever);
    executor_->Shutdown();
  }
  for (const RequestId id : ids) EXPECT_TRUE(Fetch(id).finished());
  ExpectIdle();
}

TEST_F(RequestFaultTest, ACallbackThatThrowsIsTheEndOfItsRequestOnly) {
  struct NoException {};
  const auto id = executor_->Submit(Question());
  int calls = 0;
  Response last;
  const auto throwing = executor_->Submit(Question(), [&](const Response& response) {
    ++calls;
    last = response;
    if (calls == 1) throw std::bad_alloc();
    throw NoException();
  });
  ASSERT_TRUE(id.ok() && throwing.ok());
  EXPECT_EQ(Fetch(*id).token_ids, expected_.token_ids);
  executor_->Shutdown();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(last.finish_reason, FinishReason::kError);
}

}  // namespace
}  // namespace slipstream
