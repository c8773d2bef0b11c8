#include "executor/step_record.h"

#include <algorithm>
#include <utility>

namespace slipstream::executor {

void StepRecord::Describe(const std::vector<StepEntry>& entries, const kv::KvManager& kv,
                          bool entries_too) {
  iteration.prefill_rows = iteration.decode_rows = 0;
  iteration.entries.clear();
  recomputed = known_tokens = 0;
  for (const StepEntry& entry : entries) {
    RequestState& request = *entry.request;
    known_tokens += static_cast<int64_t>(request.tokens().size());
    const bool prefill = !request.decoding();
    (prefill ? iteration.prefill_rows : iteration.decode_rows) += entry.rows;
    const int32_t before = request.place.computed_before;
    if (prefill) recomputed += std::clamp(before - request.computed(), 0, entry.rows);
    if (!entries_too) continue;
    iteration.entries.push_back({.id = request.id,
                                 .first_position = request.computed(),
                                 .rows = entry.rows,
                                 .prefill = prefill,
                                 .sampled = entry.samples,
                                 .queued_us = std::exchange(request.place.waited_us, 0)});
  }
  iteration.kv_blocks_free = kv.free_blocks();
  iteration.kv_blocks_cached = kv.evictable_blocks();
}

}  // namespace slipstream::executor
