// Which rows each running sequence gets in the next step.
#pragma once

#include <span>
#include <vector>

#include "sched/snapshot.h"

namespace slipstream::sched {

/// Decoding sequences first, one row each; then the prompts take what is left of the token budget,
/// in the order of the snapshot (first come, first served), the last one cut to a chunk. Because no
/// more than MaxRunning sequences run, each decoding sequence is in every step and the oldest
/// prompt always advances: nothing starves. The result has at most max_num_tokens rows, of which at
/// most max_batch_size give logits (a scored prompt is cut to what is left of them), and lists each
/// sequence at most once, decoding ones first.
std::vector<ScheduledSequence> PlanStep(std::span<const RunningSequence> running,
                                        const Limits& limits);

}  // namespace slipstream::sched
