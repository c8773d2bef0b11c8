// The checks that all backends make before they touch whole KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/backend.h"
#include "slipstream/status.h"

namespace slipstream::exec {

/// What a backend knows of its pools.
struct BlockPools {
  std::span<const KvGroupInfo> groups;
  std::span<const int64_t> blocks;  ///< Of each group; empty before AllocateKv.
  bool in_flight = false;           ///< A step is.
};

/// kInvalidArgument where Backend's contract says so.
Status CheckBlock(const BlockPools& pools, int32_t group, int64_t block);
Status CheckCopies(const BlockPools& pools, std::span<const BlockCopy> copies);
Status CheckImage(const BlockPools& pools, int32_t group, int64_t block, size_t image_bytes);

}  // namespace slipstream::exec
