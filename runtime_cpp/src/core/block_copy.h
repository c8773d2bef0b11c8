// The order to copy one KV block, as the block manager gives it and a backend carries it out.
#pragma once

#include <cstdint>

namespace slipstream::core {

/// All bytes of block `source` of cache group `group` go to block `target` of the same group.
struct BlockCopy {
  int32_t group = 0;
  int32_t source = 0;
  int32_t target = 0;

  bool operator==(const BlockCopy&) const = default;
};

}  // namespace slipstream::core
