// What the scheduler looks at. Its functions are pure: a snapshot in, a decision out.
#pragma once

#include <cstdint>
#include <limits>

#include "slipstream/config.h"

namespace slipstream::sched {

struct Limits {
  int32_t max_num_tokens = 0;  ///< Rows of one step.
  int32_t max_batch_size = 0;  ///< Sequences that run at once; rows of one step with logits.
};

/// A sequence that holds KV blocks.
struct RunningSequence {
  int32_t pending = 0;  ///< Known tokens that are not computed yet: the rest of the prompt, or the
                        ///< last sampled token.
  bool decoding = false;  ///< Its prompt is computed; pending is 1.
  bool scored = false;    ///< Each pending row gives logits, not the last one only.
  /// Index into the snapshot of the sequence that is about to compute the KV that this one needs
  /// next: this one gets no rows and waits for it. -1: none.
  int32_t producer = -1;
};

/// How a step's token budget goes to the prompts.
struct StepPolicy {
  ChunkingPolicy chunking = ChunkingPolicy::kFirstCome;
  int32_t chunk_unit = 32;  ///< Equal progress hands out this many tokens at a time.
  /// Rows of prompts in this step at most, beside max_num_tokens.
  int32_t prefill_budget = std::numeric_limits<int32_t>::max();
};

/// The rows of one sequence in a step.
struct ScheduledSequence {
  int32_t index = 0;  ///< Into the snapshot's running sequences.
  int32_t rows = 0;
  bool samples =
      false;  ///< The last row is the last pending token: the next token is drawn from it.
};

/// Sequences that may run at once: never more than the budget of a step, so that decoding sequences
/// cannot use it up while a prompt waits.
inline int32_t MaxRunning(const Limits& limits) {
  return limits.max_batch_size < limits.max_num_tokens ? limits.max_batch_size
                                                       : limits.max_num_tokens;
}

}  // namespace slipstream::sched
