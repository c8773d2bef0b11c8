// Which rows each running sequence gets in the next step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/snapshot.h"

namespace slipstream::sched {

/// Decoding sequences first, one row each; then the prompts take what is left of the token budget,
/// in the order of the snapshot (best rank first). A sequence that waits for a producer gets no
/// rows, and its producer takes its place in the order, so that the first in line is never behind
/// the last.
///
/// kFirstCome fills the first prompt before the next. kEqualProgress hands out chunk_unit tokens to
/// each prompt in turn until the budget is used up.
///
/// Because no more than MaxRunning sequences run, each decoding sequence is in every step, and the
/// first prompt always advances by at least one row: nothing starves. The result has at most
/// max_num_tokens rows and max_batch_size rows with logits (a scored prompt gets no more rows than
/// are left of them), and lists each sequence at most once, decoding ones first.
std::vector<ScheduledSequence> PlanStep(std::span<const RunningSequence> running,
                                        const Limits& limits, const StepPolicy& policy = {});

/// What a step costs, as measured: base_us + rows * row_us.
struct StepCost {
  double base_us = 0;
  double row_us = 0;
};

/// Rows of prompts that a step may hold so that it ends within `slack_us`, the time until the next
/// token of a decoding sequence is due. At least `least`, so that prompts always advance; without a
/// measured cost (row_us <= 0) there is no bound.
int32_t PrefillBudget(int64_t slack_us, int32_t decoding, const StepCost& cost, int32_t least);

}  // namespace slipstream::sched
