// The events of cached blocks until somebody takes them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/block_copy.h"
#include "slipstream/kv_cache.h"

namespace slipstream::kv {

using core::Tier;

/// A bounded list of events. Recording never fails: what does not fit into the bound or into memory
/// is counted as dropped. Not thread-safe.
class EventLog {
 public:
  /// Keeps at most `capacity` events; 0: records nothing.
  explicit EventLog(int64_t capacity) : capacity_(capacity) {}

  bool on() const { return capacity_ > 0; }
  /// Drops the oldest event where there is no room.
  void Record(KvEvent event) noexcept;
  /// One event could not even be made.
  void Lose() noexcept { ++dropped_; }
  /// All events since the last call, oldest first.
  std::vector<KvEvent> Take();
  /// Events that were lost since the start.
  int64_t dropped() const { return dropped_; }

 private:
  const int64_t capacity_;
  std::deque<KvEvent> events_;
  int64_t dropped_ = 0;
};

}  // namespace slipstream::kv
