// Admission and step planning: examples, then random lives of many requests with invariants.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "sched/admission.h"
#include "sched/step_planner.h"

namespace slipstream::sched {
namespace {

TEST(PlanStepTest, DecodesFirstThenPromptsInOrder) {
  const std::vector<RunningSequence> running = {{10, false}, {1, true}, {20, false}, {1, true}};
  const auto plan = PlanStep(running, {.max_num_tokens = 16, .max_batch_size = 8});
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].index, 1);
  EXPECT_EQ(plan[1].index, 3);
  EXPECT_TRUE(plan[0].samples && plan[1].samples);
  EXPECT_EQ(plan[2].index, 0);
  EXPECT_EQ(plan[2].rows, 10);
  EXPECT_TRUE(plan[2].samples);
  EXPECT_EQ(plan[3].index, 2);
  EXPECT_EQ(plan[3].rows, 4);
  EXPECT_FALSE(plan[3].samples);
}

TEST(PlanStepTest, NothingRunning) {
  EXPECT_TRUE(PlanStep({}, {.max_num_tokens = 4, .max_batch_size = 4}).empty());
}

TEST(AdmissionTest, StopsAtTheFirstThatDoesNotFit) {
  const std::vector<WaitingRequest> waiting = {{{2, 1}}, {{9, 1}}, {{1, 1}}};
  const std::vector<int64_t> free = {10, 10};
  EXPECT_EQ(CountAdmissible(waiting, 0, {.max_num_tokens = 64, .max_batch_size = 8}, free), 1);
  EXPECT_EQ(CountAdmissible(waiting, 8, {.max_num_tokens = 64, .max_batch_size = 8}, free), 0);
  const std::vector<int64_t> more = {20, 2};
  EXPECT_EQ(CountAdmissible(waiting, 0, {.max_num_tokens = 64, .max_batch_size = 8}, more), 2);
  const std::vector<int64_t> plenty = {20, 20};
  EXPECT_EQ(CountAdmissible(waiting, 0, {.max_num_tokens = 64, .max_batch_size = 8}, plenty), 3);
  // A budget of 2 rows cannot carry more than 2 sequences.
  EXPECT_EQ(CountAdmissible(waiting, 0, {.max_num_tokens = 2, .max_batch_size = 8}, plenty), 2);
}

TEST(AdmissionTest, NamesTheBindingLimit) {
  const std::vector<int64_t> need = {3, 5}, total = {4, 4};
  const std::vector<int32_t> block = {32, 32};
  const Status too_long = CheckFits({100, 1, 100, need, total, block});
  EXPECT_EQ(too_long.code(), StatusCode::kLimitExceeded);
  EXPECT_NE(too_long.message().find("100 tokens; max_seq_len 100"), std::string::npos)
      << too_long.message();
  const Status pool = CheckFits({99, 61, 1000, need, total, block});
  EXPECT_EQ(pool.code(), StatusCode::kLimitExceeded);
  EXPECT_NE(pool.message().find("KV pool"), std::string::npos);
  EXPECT_NE(pool.message().find("5 blocks of 32 tokens in cache group 1 (160 positions)"),
            std::string::npos)
      << pool.message();
  const std::vector<int64_t> enough = {5, 5};
  EXPECT_TRUE(CheckFits({99, 61, 1000, need, enough, block}).ok());
}

struct Life {
  int64_t arrival, need;
  int32_t prompt, generate;
  bool scored = false;
  int32_t computed = 0, generated = 0;
  int64_t waited = 0;
};

// Many random lives through admission and planning, with every invariant checked at each step.
TEST(SchedulerModelTest, RandomLivesKeepTheInvariants) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Limits limits{.max_num_tokens = static_cast<int32_t>(1 + random() % 40),
                        .max_batch_size = static_cast<int32_t>(1 + random() % 12)};
    const int64_t pool = 8 + random() % 40;
    std::deque<Life> waiting;
    std::vector<Life> running;
    int64_t arrivals = 0, finished = 0, last_admitted = -1, unreserved = pool;
    for (int step = 0; step < 4000 && finished < 150; ++step) {
      while (arrivals < 150 && random() % 3 == 0) {
        waiting.push_back({.arrival = arrivals++,
                           .need = static_cast<int64_t>(1 + random() % pool),
                           .prompt = static_cast<int32_t>(1 + random() % 60),
                           .generate = static_cast<int32_t>(1 + random() % 20),
                           .scored = random() % 4 == 0});
      }
      std::vector<WaitingRequest> queue;
      for (const Life& life : waiting) queue.push_back({{life.need}});
      const std::vector<int64_t> free = {unreserved};
      const int32_t admitted =
          CountAdmissible(queue, static_cast<int32_t>(running.size()), limits, free);
      ASSERT_TRUE(admitted > 0 || !running.empty() || waiting.empty())
          << "an idle executor starts somebody";
      for (int32_t i = 0; i < admitted; ++i) {
        ASSERT_GT(waiting.front().arrival, last_admitted) << "first come, first served";
        last_admitted = waiting.front().arrival;
        unreserved -= waiting.front().need;
        running.push_back(waiting.front());
        waiting.pop_front();
      }
      ASSERT_GE(unreserved, 0);
      ASSERT_LE(running.size(), static_cast<size_t>(limits.max_batch_size));
      if (running.empty()) continue;

      std::vector<RunningSequence> snapshot;
      for (const Life& life : running) {
        const bool decoding = life.generated > 0;
        snapshot.push_back({life.prompt + life.generated - life.computed, decoding,
                            life.scored && life.computed < life.prompt - 1});
      }
      const auto plan = PlanStep(snapshot, limits);
      int32_t rows = 0, decodes = 0, outputs = 0;
      std::vector<int32_t> given(running.size(), 0);
      bool decode_part = true;
      for (const ScheduledSequence& entry : plan) {
        ASSERT_GT(entry.rows, 0);
        ASSERT_EQ(given[entry.index], 0) << "listed once";
        ASSERT_LE(entry.rows, snapshot[entry.index].pending);
        ASSERT_EQ(entry.samples, entry.rows == snapshot[entry.index].pending);
        if (!snapshot[entry.index].decoding) decode_part = false;
        ASSERT_EQ(snapshot[entry.index].decoding, decode_part) << "decodes come first";
        given[entry.index] = entry.rows;
        rows += entry.rows;
        outputs += snapshot[entry.index].scored ? entry.rows : entry.samples;
      }
      ASSERT_LE(rows, limits.max_num_tokens);
      ASSERT_LE(outputs, limits.max_batch_size);
      // Where no place for logits is left, a prompt may wait for one with its last rows.
      const bool full = outputs == limits.max_batch_size;
      int32_t wanted = 0;
      bool short_of_budget = false;
      for (size_t i = 0; i < running.size(); ++i) {
        wanted += snapshot[i].pending;
        if (snapshot[i].decoding) {
          ASSERT_EQ(given[i], 1) << "every decoding sequence is in every step";
          ++decodes;
        } else {
          ASSERT_FALSE(given[i] > 0 && short_of_budget && !full) << "an older prompt goes first";
          if (given[i] < snapshot[i].pending) short_of_budget = true;
        }
      }
      if (!full) {
        ASSERT_EQ(rows, std::min(wanted, limits.max_num_tokens))
            << "no row of the budget is wasted";
      }
      for (const ScheduledSequence& entry : plan) {
        running[entry.index].computed += entry.rows;
        if (entry.samples) ++running[entry.index].generated;
      }
      std::erase_if(running, [&](const Life& life) {
        if (life.generated < life.generate) return false;
        unreserved += life.need;
        ++finished;
        return true;
      });
    }
    EXPECT_EQ(finished, 150) << "everybody ends: no starvation";
    EXPECT_EQ(unreserved, pool);
  }
}

}  // namespace
}  // namespace slipstream::sched
