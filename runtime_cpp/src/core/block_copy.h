// The order to copy one KV block, as the block manager gives it and a backend or a mover between
// tiers carries it out.
#pragma once

#include <cstdint>

#include "slipstream/kv_cache.h"

namespace slipstream::core {

using Tier = KvTier;

/// All bytes of `source` of cache group `group` go to `target` of the same group. Backends carry
/// out copies inside the device only.
struct BlockCopy {
  int32_t group = 0;
  int32_t source = 0;  ///< Number of a block of the device, or of a slot of the host tier.
  int32_t target = 0;
  Tier from = Tier::kDevice;
  Tier to = Tier::kDevice;

  bool in_device() const { return from == Tier::kDevice && to == Tier::kDevice; }
  bool operator==(const BlockCopy&) const = default;
};

}  // namespace slipstream::core
