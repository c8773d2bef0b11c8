// What happens to cached blocks, told to whoever routes requests to where their prefix is.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/block_copy.h"
#include "slipstream/types.h"

namespace slipstream::kv {

using core::Tier;

/// Blocks are named by a 64-bit hash of their cache key and all tokens from the first of the
/// sequence to their own last.
struct KvEvent {
  enum class Kind : uint8_t { kStored = 0, kRemoved = 1, kMoved = 2 };

  Kind kind = Kind::kStored;
  int32_t group = 0;
  std::vector<uint64_t> hashes;  ///< Of the blocks; those stored follow each other.
  // Stored only:
  uint64_t parent = 0;             ///< The block (or, for the first, the key) that they continue.
  std::vector<TokenId> token_ids;  ///< Of these blocks. The last may be incomplete.
  std::string cache_key;
  // Moved only:
  Tier from = Tier::kDevice;
  Tier to = Tier::kDevice;
};

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
