#include "sched/step_planner.h"

#include <algorithm>

namespace slipstream::sched {

std::vector<ScheduledSequence> PlanStep(std::span<const RunningSequence> running,
                                        const Limits& limits) {
  std::vector<ScheduledSequence> plan;
  plan.reserve(running.size());
  int32_t budget = limits.max_num_tokens;
  int32_t outputs = limits.max_batch_size;
  const int32_t count = static_cast<int32_t>(running.size());
  for (const bool decoding : {true, false}) {
    for (int32_t i = 0; i < count && budget > 0; ++i) {
      if (running[i].decoding != decoding) continue;
      int32_t rows = std::min(budget, running[i].pending);
      if (running[i].scored) rows = std::min(rows, outputs);
      // Without a place for its logits the last row waits.
      if (outputs == 0 && rows == running[i].pending) --rows;
      if (rows == 0) continue;
      const bool samples = rows == running[i].pending;
      plan.push_back({.index = i, .rows = rows, .samples = samples});
      budget -= rows;
      outputs -= running[i].scored ? rows : samples;
    }
  }
  return plan;
}

}  // namespace slipstream::sched
