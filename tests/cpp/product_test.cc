// The library inside somebody else's program: several engines at once, loading and unloading
// without end, nothing left behind.
#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "slipstream/executor.h"
#include "tiny_engine_file.h"

namespace slipstream {
namespace {

constexpr ExecutorConfig kConfig{.kv_memory_bytes = 1 << 20};

Request Question(int number) {
  Request request{.prompt = "question " + std::to_string(number)};
  request.sampling.max_tokens = 12;
  request.sampling.temperature = 0.7f;
  request.sampling.seed = 100 + number;
  request.sampling.ignore_eos = true;
  return request;
}

std::vector<TokenId> Answer(Executor& executor, Request request) {
  std::vector<TokenId> ids;
  const auto id = executor.Submit(std::move(request));
  if (!id.ok()) {
    ADD_FAILURE() << id.status().message();
    return ids;
  }
  for (;;) {
    const auto news = executor.Next(*id);
    if (!news.ok() || !news->status.ok()) {
      ADD_FAILURE() << (news.ok() ? news->status : news.status()).message();
      return ids;
    }
    ids.insert(ids.end(), news->token_ids.begin(), news->token_ids.end());
    if (news->finished()) return ids;
  }
}

/// An engine from its path to its executor, with everything in between alive through it alone.
std::unique_ptr<Executor> Serve(const std::string& path, const RuntimeConfig& config = {2}) {
  const auto engine = Engine::Load(path);
  const auto runtime = Runtime::Create(config);
  if (!engine.ok() || !runtime.ok()) return nullptr;
  const auto model = Model::Create(*runtime, *engine);
  if (!model.ok()) return nullptr;
  auto executor = Executor::Create(*model, kConfig);
  return executor.ok() ? *std::move(executor) : nullptr;
}

using Answers = std::vector<std::vector<TokenId>>;

Answers AskAll(Executor& executor, int questions) {
  Answers answers;
  for (int q = 0; q < questions; ++q) answers.push_back(Answer(executor, Question(q)));
  return answers;
}

TEST(Product, TwoModelsInOneProcessFromManyThreads) {
  constexpr int kQuestions = 6;
  const TinyEngineFile first("product_first", 1);
  const TinyEngineFile second("product_second", 2, {.layers = 2, .hidden = 36, .mlp = 29});
  const Answers expected_first = AskAll(*Serve(first.path()), kQuestions);
  const Answers expected_second = AskAll(*Serve(second.path()), kQuestions);
  ASSERT_NE(expected_first, expected_second);
  // On one shared Runtime, and each on its own.
  for (const bool shared : {true, false}) {
    const auto runtime = Runtime::Create({.threads = 2});
    ASSERT_TRUE(runtime.ok());
    std::vector<std::unique_ptr<Executor>> executors;
    for (const TinyEngineFile* file : {&first, &second}) {
      if (!shared) {
        executors.push_back(Serve(file->path()));
        ASSERT_NE(executors.back(), nullptr);
        continue;
      }
      const auto engine = Engine::Load(file->path());
      ASSERT_TRUE(engine.ok());
      const auto model = Model::Create(*runtime, *engine);
      ASSERT_TRUE(model.ok());
      auto executor = Executor::Create(*model, kConfig);
      ASSERT_TRUE(executor.ok());
      executors.push_back(*std::move(executor));
    }
    std::vector<Answers> answers(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] { answers[t] = AskAll(*executors[t % 2], kQuestions); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < 4; ++t)
      EXPECT_EQ(answers[t], t % 2 == 0 ? expected_first : expected_second) << shared << t;
  }
}

TEST(Product, TwoExecutorsOfOneModel) {
  constexpr int kQuestions = 6;
  const TinyEngineFile file("product_two_executors");
  const Answers expected = AskAll(*Serve(file.path()), kQuestions);
  const auto engine = Engine::Load(file.path());
  const auto runtime = Runtime::Create({.threads = 2});
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok());
  auto first = Executor::Create(*model, kConfig);
  auto second = Executor::Create(*model, kConfig);
  ASSERT_TRUE(first.ok() && second.ok());
  Answers one;
  std::thread thread([&] { one = AskAll(**first, kQuestions); });
  EXPECT_EQ(AskAll(**second, kQuestions), expected);
  thread.join();
  EXPECT_EQ(one, expected);
  // The end of one is nothing to the other.
  first->reset();
  EXPECT_EQ(AskAll(**second, kQuestions), expected);
}

TEST(Product, TheExecutorKeepsAliveWhatItNeeds) {
  auto file = std::make_unique<TinyEngineFile>("product_alive");
  const std::unique_ptr<Executor> executor = Serve(file->path());
  ASSERT_NE(executor, nullptr);
  file.reset();  // the file's name is gone too
  EXPECT_EQ(Answer(*executor, Question(1)).size(), 12u);
}

TEST(Product, ThreadsUseTheApiTogether) {
  const TinyEngineFile file("product_threads");
  const auto engine = Engine::Load(file.path());
  const auto runtime = Runtime::Create({.threads = 2});
  ASSERT_TRUE(engine.ok() && runtime.ok());
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok());
  auto executor = Executor::Create(*model, kConfig);
  ASSERT_TRUE(executor.ok());
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        auto id = (*executor)->Submit(Question(10 * t + i), [&](const Response&) { ++told; });
        if (id.ok() && i % 2 == 0) (void)(*executor)->Cancel(*id);
        (void)(*executor)->Stats();
        (void)Engine(*engine).tokenizer().Encode("some text");
        (void)engine->ApplyChatTemplate(R"([{"role": "user", "content": "x"}])");
        (void)Model(*model).engine().path();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*executor)->Shutdown();
  EXPECT_GE(told.load(), 40);  // at least the end of each
}

int Entries(const char* folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(opendir(folder), closedir);
  int entries = 0;
  while (list != nullptr && readdir(list.get()) != nullptr) ++entries;
  return entries;
}

/// Kilobytes of anonymous memory in use: file pages come and go with the page cache.
int64_t MemoryKb() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != "RssAnon:") continue;
    int64_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes;
  }
  return 0;
}

int Mappings() {
  std::ifstream file("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.find(".engine") != line.npos;
  return lines;
}

TEST(Product, LoadingAndUnloadingLeavesNothing) {
  const TinyEngineFile file("product_loop");
  const auto round = [&] {
    const std::unique_ptr<Executor> executor = Serve(file.path(), {.threads = 3});
    ASSERT_NE(executor, nullptr);
    EXPECT_EQ(Answer(*executor, Question(1)).size(), 12u);
    // One that still runs when everything ends.
    Request unread = Question(2);
    unread.sampling.max_tokens = 500;
    ASSERT_TRUE(executor->Submit(std::move(unread)).ok());
  };
  std::thread([] {}).join();  // with the first thread a sanitizer may start one of its own
  const int files = Entries("/proc/self/fd"), threads = Entries("/proc/self/task");
  for (int i = 0; i < 20; ++i) round();  // fills what the C library keeps for later
  const int64_t before = MemoryKb();
  const char* rounds = std::getenv("SLIPSTREAM_TEST_ROUNDS");
  const int count = rounds == nullptr ? 100 : std::atoi(rounds);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) round();
  EXPECT_EQ(Entries("/proc/self/fd"), files);
  // A thread that was joined may still be listed for a moment.
  for (int i = 0; i < 1000 && Entries("/proc/self/task") != threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Entries("/proc/self/task"), threads);
  EXPECT_EQ(Mappings(), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they hold freed memory back
  // A kilobyte a round would be a leak; the rest is the scatter of the heap.
  EXPECT_LT(MemoryKb() - before, 512 + count / 2);
#endif
}

}  // namespace
}  // namespace slipstream
