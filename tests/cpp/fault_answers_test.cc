// The n-th allocation fails, for every n, while one prompt is answered several times.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "fault_injection.h"
#include "slipstream/executor.h"
#include "tiny_engine_file.h"

namespace slipstream {
namespace {

using fault::Inject;
using fault::Point;

constexpr std::chrono::seconds kHang{30};

/// A client may have its answer before the loop has put the request away.
void ExpectIdle(const Executor& executor) {
  ExecutorStats stats = executor.Stats();
  for (int i = 0; i < 10000 && stats.running + stats.waiting > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stats = executor.Stats();
  }
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
}

// Each answer is right or ends with an error of its own, and the request ends.
TEST(AnswersFaultTest, EveryAllocationOfSeveralAnswers) {
  const TinyEngineFile file("fault_answers_test", 1,
                            exec::TinyConfig{.layers = 2,
                                             .hidden = 16,
                                             .heads = 2,
                                             .kv_heads = 1,
                                             .head_dim = 8,
                                             .rotary_dim = 8,
                                             .mlp = 16});
  const auto engine = Engine::Load(file.path());
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto runtime = Runtime::Create({.threads = 2});
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto made = Executor::Create(*model, {.kv_memory_bytes = 1 << 20});
  ASSERT_TRUE(made.ok()) << made.status().message();
  Executor& executor = **made;
  for (const std::optional<int32_t> best_of :
       {std::optional<int32_t>(), std::optional<int32_t>(4)}) {
    Request question{.prompt = "ab abc <s> what?"};
    question.sampling.max_tokens = 6;
    question.sampling.seed = 7;
    question.sampling.ignore_eos = true;
    question.sampling.repetition_penalty = 1.1f;
    question.sampling.n = 3;
    question.sampling.best_of = best_of;
    std::vector<Response> expected;
    int64_t failed = 0, served = 0;
    bool hit = true;
    for (int64_t n = -1; hit && !HasFailure(); ++n) {  // -1: without a fault
      std::vector<Response> answers(3);
      Result<RequestId> id = RequestId{0};
      bool last = false, hung = false;
      std::vector<Response> news;
      news.reserve(200);
      Request copy = question;
      {
        const Inject inject(Point::kAllocate, n < 0 ? int64_t{1} << 40 : n, 2);
        id = executor.Submit(std::move(copy));
        while (id.ok() && !last && !hung && news.size() < 200) {
          Result<Response> next = executor.Next(*id, kHang);
          if (!next.ok()) continue;  // out of memory: it is called again
          hung = next->token_ids.empty() && !next->finished() && !next->last;
          last = next->last;
          news.push_back(*std::move(next));
        }
        hit = n < 0 || inject.hit();
      }
      EXPECT_TRUE(!id.ok() || last) << "allocation " << n << ": the request never ends";
      for (Response& one : news) answers[one.index].Join(std::move(one));
      if (n < 0) expected = answers;
      for (size_t i = 0; id.ok() && i < answers.size(); ++i) {
        if (answers[i].status.ok() && answers[i].finished()) {
          ++served;
          // Where an answer failed, best_of takes the next one.
          const bool same = answers[i].token_ids == expected[i].token_ids;
          EXPECT_TRUE(same || best_of) << "allocation " << n << ", answer " << i;
        } else {
          ++failed;
        }
      }
      ExpectIdle(executor);
    }
    EXPECT_GT(failed, 0);
    EXPECT_GT(served, 0);
  }
}

}  // namespace
}  // namespace slipstream
