// Whether a request can ever run.
#pragma once

#include <cstdint>
#include <span>

#include "slipstream/status.h"

namespace slipstream::sched {

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
