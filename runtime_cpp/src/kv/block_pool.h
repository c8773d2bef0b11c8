// The free list, reference counts and accounts of the KV blocks of one cache group.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace slipstream::kv {

/// Hands out block numbers 0 <= b < total(). A block is in one of three states:
///   pinned:    somebody holds a reference to it, cached or not;
///   evictable: nobody does, but the index knows its content (it is cached);
///   free:      neither.
/// The order is deterministic: the block that became free last is handed out first, because it is
/// likeliest to be in a cache. Nothing allocates after construction. Not thread-safe.
class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);

  /// A free block with one reference, or nothing when none is free. `reserving`: see AddReference.
  std::optional<int32_t> Allocate(bool reserving = false);
  /// One more holder of a block that is pinned or evictable. `reserving` holders were promised
  /// blocks ahead; Release must be told the same.
  void AddReference(int32_t block, bool reserving = false);
  /// One holder less; true when it was the last.
  bool Release(int32_t block, bool reserving = false);
  /// Whether the index knows the content of a block that is not free. A block that loses both
  /// holders and index is free.
  void SetCached(int32_t block, bool cached);

  int64_t total() const { return static_cast<int64_t>(state_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t evictable() const { return total() - free() - pinned_; }
  int64_t pinned() const { return pinned_; }
  int64_t cached() const { return cached_; }
  int32_t references(int32_t block) const { return state_[block].references; }
  bool is_cached(int32_t block) const { return state_[block].cached; }
  /// Held by exactly one holder, and that one reserves.
  bool secured(int32_t block) const {
    return state_[block].references == 1 && state_[block].reserving == 1;
  }

  /// References of reserving holders, all blocks together.
  int64_t reserving_references() const { return reserving_references_; }
  /// Blocks that are secured().
  int64_t secured_blocks() const { return secured_; }

 private:
  struct State {
    int32_t references = 0;
    int32_t reserving = 0;  // of the references
    bool cached = false;
  };
  void Count(int32_t block, int32_t references, int32_t reserving);

  std::vector<State> state_;
  std::vector<int32_t> free_;
  int64_t pinned_ = 0;
  int64_t cached_ = 0;
  int64_t secured_ = 0;
  int64_t reserving_references_ = 0;
};

}  // namespace slipstream::kv
