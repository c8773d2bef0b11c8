#include "sched/step_planner.h"

#include <algorithm>
#include <limits>

namespace slipstream::sched {
namespace {

/// The prompts that can advance, in the order in which they are served.
std::vector<int32_t> PromptsInOrder(std::span<const RunningSequence> running) {
  const int32_t count = static_cast<int32_t>(running.size());
  std::vector<int32_t> order;
  std::vector<uint8_t> listed(running.size(), 0);
  for (int32_t i = 0; i < count; ++i) {
    // Whoever waits is served by serving the one at the end of its chain of producers.
    int32_t server = i;
    for (int32_t hops = 0; running[server].producer >= 0 && hops < count; ++hops)
      server = running[server].producer;
    if (running[server].decoding || listed[server]) continue;
    listed[server] = 1;
    order.push_back(server);
  }
  return order;
}

}  // namespace

std::vector<ScheduledSequence> PlanStep(std::span<const RunningSequence> running,
                                        const Limits& limits, const StepPolicy& policy) {
  std::vector<ScheduledSequence> plan;
  plan.reserve(running.size());
  const int32_t count = static_cast<int32_t>(running.size());
  int32_t rows_left = limits.max_num_tokens;
  for (int32_t i = 0; i < count && rows_left > 0; ++i) {
    if (!running[i].decoding) continue;
    plan.push_back({.index = i, .rows = 1, .samples = true});
    --rows_left;
  }
  int32_t outputs_left = limits.max_batch_size - static_cast<int32_t>(plan.size());
  rows_left = std::min(rows_left, policy.prefill_budget);

  const size_t first_prompt = plan.size();
  for (const int32_t index : PromptsInOrder(running)) plan.push_back({.index = index});
  const bool equal = policy.chunking == ChunkingPolicy::kEqualProgress;
  const int32_t unit = equal ? std::max(1, policy.chunk_unit) : std::numeric_limits<int32_t>::max();
  for (bool advanced = true; advanced && rows_left > 0;) {
    advanced = false;
    for (size_t p = first_prompt; p < plan.size(); ++p) {
      ScheduledSequence& prompt = plan[p];
      const RunningSequence& sequence = running[prompt.index];
      int32_t rows = std::min({unit, sequence.pending - prompt.rows, rows_left});
      if (sequence.scored) rows = std::min(rows, outputs_left);
      const bool completes = prompt.rows + rows == sequence.pending;
      // The row that is drawn from is an output row too.
      if (rows > 0 && completes && outputs_left == 0) --rows;
      if (rows <= 0) continue;
      prompt.rows += rows;
      prompt.samples = prompt.rows == sequence.pending;
      rows_left -= rows;
      outputs_left -= sequence.scored ? rows : (prompt.samples ? 1 : 0);
      advanced = true;
    }
  }
  std::erase_if(plan, [](const ScheduledSequence& scheduled) { return scheduled.rows == 0; });
  return plan;
}

int32_t PrefillBudget(int64_t slack_us, int32_t decoding, const StepCost& cost, int32_t least) {
  if (cost.row_us <= 0) return std::numeric_limits<int32_t>::max();
  const double rows =
      (static_cast<double>(slack_us) - cost.base_us) / cost.row_us - static_cast<double>(decoding);
  if (rows >= static_cast<double>(std::numeric_limits<int32_t>::max()))
    return std::numeric_limits<int32_t>::max();
  return std::max(least, static_cast<int32_t>(std::max(0.0, rows)));
}

}  // namespace slipstream::sched
