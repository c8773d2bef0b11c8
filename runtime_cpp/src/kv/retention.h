// How long, and how firmly, the blocks of a sequence are kept as cache.
#pragma once

#include <cstdint>
#include <span>

#include "slipstream/kv_cache.h"

namespace slipstream::kv {

/// The range of the highest priority that meets [first, end); null when none does.
inline const KvRetention* FindRetention(std::span<const KvRetention> ranges, int64_t first,
                                        int64_t end) {
  const KvRetention* best = nullptr;
  for (const KvRetention& range : ranges) {
    if (range.first >= end || range.end <= first) continue;
    if (best == nullptr || range.priority > best->priority) best = &range;
  }
  return best;
}

}  // namespace slipstream::kv
