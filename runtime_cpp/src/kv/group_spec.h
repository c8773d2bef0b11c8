// What a cache group is, and how many blocks a sequence needs in it.
#pragma once

#include <cstdint>
#include <string_view>

#include "slipstream/status.h"

namespace slipstream::kv {

/// Layers that keep their keys and values in the same way share a group, and a block of it holds
/// all of them.
struct GroupSpec {
  int32_t block_tokens = 32;  ///< Positions per block.
  int32_t window = 0;         ///< 0: full attention. Else a query at q reads q - window < p <= q.
  int64_t bytes_per_block = 0;
};

/// Makes a spec of a manifest's group. Kinds "full" and "window" are run; "latent" and "state" are
/// known to the file format but not to this runtime (kIncompatible); anything else, or sizes that
/// are not positive, is kInvalidArgument.
Result<GroupSpec> MakeGroupSpec(std::string_view kind, int32_t block_tokens, int32_t window,
                                int64_t bytes_per_block);

/// Blocks that cover `tokens` positions from 0 on.
int64_t BlocksToCover(const GroupSpec& spec, int64_t tokens);

/// The most blocks that a sequence of `total_tokens` positions holds at any time when no step
/// computes more than `max_chunk` of its positions: all of them in a full group; in a window group
/// those that touch the longest run of window - 1 + max_chunk positions, since blocks wholly before
/// it have been freed.
int64_t PeakBlocks(const GroupSpec& spec, int64_t total_tokens, int64_t max_chunk);

/// The first block that is still read when the next position to compute is `position`: blocks
/// wholly before position - window + 1 are dead. 0 in a full group.
int64_t FirstLiveBlock(const GroupSpec& spec, int64_t position);

}  // namespace slipstream::kv
