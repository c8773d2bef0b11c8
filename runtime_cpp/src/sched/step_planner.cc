#include "sched/step_planner.h"

#include <algorithm>

namespace slipstream::sched {

std::vector<ScheduledSequence> PlanStep(std::span<const RunningSequence> running,
                                        const Limits& limits) {
  std::vector<ScheduledSequence> plan;
  plan.reserve(running.size());
  int32_t budget = limits.max_num_tokens;
  const int32_t count = static_cast<int32_t>(running.size());
  for (const bool decoding : {true, false}) {
    for (int32_t i = 0; i < count && budget > 0; ++i) {
      if (running[i].decoding != decoding) continue;
      const int32_t rows = std::min(budget, running[i].pending);
      plan.push_back({.index = i, .rows = rows, .samples = rows == running[i].pending});
      budget -= rows;
    }
  }
  return plan;
}

}  // namespace slipstream::sched
