// Ranks, admission and step planning: examples, then random lives of many requests with invariants.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sched/admission.h"
#include "sched/rank.h"
#include "sched/step_planner.h"

namespace slipstream::sched {
namespace {

std::vector<int32_t> RowsOf(const std::vector<ScheduledSequence>& plan, size_t sequences) {
  std::vector<int32_t> rows(sequences, 0);
  for (const ScheduledSequence& scheduled : plan) rows[scheduled.index] += scheduled.rows;
  return rows;
}

TEST(RankTest, PriorityThenDeadlineThenArrival) {
  const auto rank = [](int64_t level, int64_t deadline, uint64_t arrival) {
    return Rank{.level = level, .deadline_us = deadline, .arrival = arrival};
  };
  EXPECT_TRUE(ServedBefore(rank(2, kNoDeadline, 9), rank(1, 5, 1)));
  EXPECT_TRUE(ServedBefore(rank(1, 5, 9), rank(1, kNoDeadline, 1)));
  EXPECT_TRUE(ServedBefore(rank(1, 5, 1), rank(1, 5, 2)));
  EXPECT_FALSE(ServedBefore(rank(1, 5, 1), rank(1, 5, 1))) << "strict";
}

TEST(RankTest, IsAStrictTotalOrder) {
  std::mt19937 random(4);
  std::vector<Rank> ranks;
  for (uint64_t i = 0; i < 40; ++i) {
    ranks.push_back({.level = static_cast<int64_t>(random() % 3),
                     .deadline_us = static_cast<int64_t>(random() % 3),
                     .arrival = i});
  }
  for (const Rank& a : ranks) {
    for (const Rank& b : ranks) {
      EXPECT_EQ(ServedBefore(a, b) + ServedBefore(b, a), a.arrival != b.arrival);
      for (const Rank& c : ranks) {
        if (ServedBefore(a, b) && ServedBefore(b, c)) {
          EXPECT_TRUE(ServedBefore(a, c));
        }
      }
    }
  }
}

TEST(RankTest, AgeingRaisesByOneForEachInterval) {
  EXPECT_EQ(AgedLevel(-3, 0, 100), -3);
  EXPECT_EQ(AgedLevel(-3, 99, 100), -3);
  EXPECT_EQ(AgedLevel(-3, 100, 100), -2);
  EXPECT_EQ(AgedLevel(-3, 1000, 100), 7);
  EXPECT_EQ(AgedLevel(5, 1000, 0), 5) << "switched off";
}

TEST(RankTest, PreemptsOnlyWhatIsLowerInBoth) {
  const Rank high{.priority = 2, .level = 2};
  EXPECT_TRUE(MayPreempt(high, {.priority = 1, .level = 1}));
  EXPECT_FALSE(MayPreempt(high, {.priority = 2, .level = 0})) << "of one priority";
  EXPECT_FALSE(MayPreempt(high, {.priority = 1, .level = 2})) << "it waited its way up";
  EXPECT_FALSE(MayPreempt({.priority = 0, .level = 9}, {.priority = 0, .level = 0}))
      << "waiting alone never pushes out one of the same priority";
}

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

TEST(PlanStepTest, EqualProgressAdvancesAllByTheSame) {
  const std::vector<RunningSequence> running = {{100, false}, {1, true}, {9, false}, {50, false}};
  const Limits limits{.max_num_tokens = 41, .max_batch_size = 8};
  const StepPolicy policy{.chunking = ChunkingPolicy::kEqualProgress, .chunk_unit = 4};
  const auto plan = PlanStep(running, limits, policy);
  EXPECT_EQ(RowsOf(plan, 4), (std::vector<int32_t>{16, 1, 9, 15}));
  EXPECT_EQ(RowsOf(PlanStep(running, limits), 4), (std::vector<int32_t>{40, 1, 0, 0}));
}

TEST(PlanStepTest, WhoWaitsForAProducerGetsNoRowsAndLendsItsPlace) {
  std::vector<RunningSequence> running = {
      {50, false}, {40, false}, {30, false}, {20, false}, {10, false}};
  running[0].producer = 3;  // the first in line waits for the fourth
  running[3].producer = 4;  // which waits for the fifth
  const auto plan = PlanStep(running, {.max_num_tokens = 45, .max_batch_size = 8});
  EXPECT_EQ(RowsOf(plan, 5), (std::vector<int32_t>{0, 35, 0, 0, 10}));
  EXPECT_EQ(plan.front().index, 4);
}

TEST(PlanStepTest, RowsThatAreOutputsAreBoundedByTheBatchSize) {
  std::vector<RunningSequence> running = {{20, false}, {1, true}, {30, false}, {3, false}};
  running[0].scored = true;
  const auto plan = PlanStep(running, {.max_num_tokens = 64, .max_batch_size = 6});
  // One output for the decoding sequence, five for the first prompt: the third advances without
  // its last row, which would be an output, too, and so does the fourth.
  EXPECT_EQ(RowsOf(plan, 4), (std::vector<int32_t>{5, 1, 29, 2}));
  for (const ScheduledSequence& scheduled : plan)
    EXPECT_EQ(scheduled.samples, scheduled.index == 1);
}

TEST(PlanStepTest, PrefillBudgetBoundsPromptsOnly) {
  const std::vector<RunningSequence> running = {{1, true}, {60, false}, {1, true}};
  const auto plan =
      PlanStep(running, {.max_num_tokens = 64, .max_batch_size = 8}, {.prefill_budget = 7});
  EXPECT_EQ(RowsOf(plan, 3), (std::vector<int32_t>{1, 7, 1}));
}

TEST(PrefillBudgetTest, LeavesTheGapThatWasAskedFor) {
  const StepCost cost{.base_us = 1000, .row_us = 100};
  EXPECT_EQ(PrefillBudget(5000, 4, cost, 8), 36);
  EXPECT_EQ(PrefillBudget(1100, 4, cost, 8), 8) << "prompts always advance";
  EXPECT_EQ(PrefillBudget(-7, 4, cost, 8), 8);
  EXPECT_EQ(PrefillBudget(5000, 4, {}, 8), std::numeric_limits<int32_t>::max())
      << "nothing is measured yet";
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
  Rank rank;
  int64_t need;
  int32_t prompt, generate;
  int32_t computed = 0, generated = 0;
  bool scored = false;
};

// Many random lives through rank and planning, with every invariant checked at each step.
TEST(SchedulerModelTest, RandomLivesKeepTheInvariants) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Limits limits{.max_num_tokens = static_cast<int32_t>(1 + random() % 40),
                        .max_batch_size = static_cast<int32_t>(1 + random() % 12)};
    const StepPolicy policy{
        .chunking = random() % 2 ? ChunkingPolicy::kEqualProgress : ChunkingPolicy::kFirstCome,
        .chunk_unit = static_cast<int32_t>(1 + random() % 8)};
    const int64_t pool = 8 + random() % 40;
    std::vector<Life> waiting, running;
    int64_t finished = 0, unreserved = pool;
    uint64_t arrivals = 0;
    const auto before = [](const Life& a, const Life& b) { return ServedBefore(a.rank, b.rank); };
    for (int step = 0; step < 6000 && finished < 150; ++step) {
      while (arrivals < 150 && random() % 3 == 0) {
        const int32_t priority = static_cast<int32_t>(random() % 4);
        waiting.push_back({.rank = {.priority = priority, .level = priority, .arrival = arrivals++},
                           .need = static_cast<int64_t>(1 + random() % pool),
                           .prompt = static_cast<int32_t>(1 + random() % 60),
                           .generate = static_cast<int32_t>(1 + random() % 20),
                           .scored = random() % 4 == 0});
      }
      std::sort(waiting.begin(), waiting.end(), before);
      while (!waiting.empty() && static_cast<int32_t>(running.size()) < MaxRunning(limits) &&
             waiting.front().need <= unreserved) {
        unreserved -= waiting.front().need;
        running.push_back(waiting.front());
        waiting.erase(waiting.begin());
      }
      std::sort(running.begin(), running.end(), before);
      if (running.empty()) continue;

      std::vector<RunningSequence> snapshot;
      for (const Life& life : running)
        snapshot.push_back({life.prompt + life.generated - life.computed, life.generated > 0,
                            life.scored && life.computed < life.prompt - 1});
      for (size_t i = 0; i < snapshot.size(); ++i) {
        // Some wait for a later prompt, which itself waits for nobody.
        const size_t other = random() % snapshot.size();
        if (!snapshot[i].decoding && other > i && !snapshot[other].decoding && random() % 4 == 0)
          snapshot[i].producer = static_cast<int32_t>(other);
      }
      const auto plan = PlanStep(snapshot, limits, policy);
      int32_t rows = 0, outputs = 0;
      std::vector<int32_t> given(running.size(), 0);
      bool decode_part = true;
      for (const ScheduledSequence& entry : plan) {
        ASSERT_GT(entry.rows, 0);
        ASSERT_EQ(given[entry.index], 0) << "listed once";
        ASSERT_LE(entry.rows, snapshot[entry.index].pending);
        ASSERT_EQ(entry.samples, entry.rows == snapshot[entry.index].pending);
        ASSERT_EQ(snapshot[entry.index].producer, -1) << "who waits gets no rows";
        if (!snapshot[entry.index].decoding) decode_part = false;
        ASSERT_EQ(snapshot[entry.index].decoding, decode_part) << "decodes come first";
        given[entry.index] = entry.rows;
        rows += entry.rows;
        outputs += snapshot[entry.index].scored ? entry.rows : entry.samples;
      }
      ASSERT_LE(rows, limits.max_num_tokens);
      ASSERT_LE(outputs, limits.max_batch_size);
      int32_t wanted = 0, least = limits.max_num_tokens;
      for (size_t i = 0; i < running.size(); ++i) {
        if (snapshot[i].producer >= 0) continue;
        wanted += snapshot[i].pending;
        if (snapshot[i].decoding) {
          ASSERT_EQ(given[i], 1) << "every decoding sequence is in every step";
        } else if (given[i] < snapshot[i].pending) {
          least = std::min(least, given[i]);
        }
      }
      // Where no place for logits is left, a prompt may wait for one with its last rows.
      const bool full = outputs == limits.max_batch_size;
      ASSERT_LE(rows, std::min(wanted, limits.max_num_tokens));
      ASSERT_TRUE(full || rows == std::min(wanted, limits.max_num_tokens))
          << "no row of the budget is wasted";
      for (size_t i = 0; i < running.size(); ++i) {
        if (policy.chunking != ChunkingPolicy::kEqualProgress || snapshot[i].decoding || full)
          continue;
        ASSERT_LE(given[i], least + policy.chunk_unit) << "nobody is ahead by more than a unit";
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
