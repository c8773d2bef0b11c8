// How long, and how firmly, the blocks of a sequence are kept as cache.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>

namespace slipstream::kv {

/// What blocks have of which nobody says anything, on a scale from 0 (evicted first) to 100.
constexpr int32_t kDefaultPriority = 35;

/// The positions [first, end) of a sequence and what they are worth when nobody holds them.
struct RetentionRange {
  int64_t first = 0;
  int64_t end = INT64_MAX;  ///< Generated tokens lie behind the prompt.
  int32_t priority = kDefaultPriority;
  /// From when the last sequence lets go; then kDefaultPriority holds. 0: for good.
  std::chrono::milliseconds duration{0};
};

/// The range of the highest priority that meets [first, end); null when none does.
inline const RetentionRange* FindRetention(std::span<const RetentionRange> ranges, int64_t first,
                                           int64_t end) {
  const RetentionRange* best = nullptr;
  for (const RetentionRange& range : ranges) {
    if (range.first >= end || range.end <= first) continue;
    if (best == nullptr || range.priority > best->priority) best = &range;
  }
  return best;
}

}  // namespace slipstream::kv
