// Who may start: GUARANTEED_NO_EVICT. A request is admitted only when the blocks of its longest
// possible life can be reserved in every cache group, so that nothing that runs is ever preempted.
#pragma once

#include <cstdint>
#include <span>

#include "sched/snapshot.h"
#include "slipstream/status.h"

namespace slipstream::sched {

/// How many requests from the front of the queue can start now. Strictly first come, first served:
/// a request that does not fit blocks those behind it, so that a large one is never starved by
/// small ones.
int32_t CountAdmissible(std::span<const WaitingRequest> waiting, int32_t running,
                        const Limits& limits, std::span<const int64_t> unreserved_blocks);

/// What one request asks for, and what an empty executor has.
struct FitQuestion {
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  int64_t max_seq_len = 0;
  std::span<const int64_t>
      need;  ///< Blocks per group for min(prompt + max_tokens, max_seq_len) positions.
  std::span<const int64_t> total_blocks;  ///< Of the pool, per group.
  std::span<const int32_t> block_tokens;  ///< Positions per block, per group.
};

/// kLimitExceeded, naming the binding limit (max_seq_len or the KV pool), when the request can
/// never run.
Status CheckFits(const FitQuestion& question);

}  // namespace slipstream::sched
