// In which order cached blocks that nobody holds are given up.
#pragma once

#include <cstdint>
#include <vector>

namespace slipstream::kv {

/// How much a cached block is worth. The least worthy is evicted first.
struct Worth {
  int32_t priority = 0;   ///< Lower goes first.
  uint64_t last_use = 0;  ///< Within a priority: the least recently used first.
  int32_t depth = 0;      ///< Within one use: the deepest in the tree first, leaves before parents.

  bool operator<(const Worth& other) const {
    if (priority != other.priority) return priority < other.priority;
    if (last_use != other.last_use) return last_use < other.last_use;
    return depth > other.depth;
  }
};

/// A binary heap of numbers 0 <= b < capacity that knows where each is, so that any can be taken
/// out. O(log n) each; nothing allocates after construction. Not thread-safe.
class EvictionQueue {
 public:
  explicit EvictionQueue(int64_t capacity);

  /// Adds `block`, or gives it another worth.
  void Put(int32_t block, const Worth& worth);
  /// Takes `block` out, if it is in.
  void Remove(int32_t block);
  bool Contains(int32_t block) const { return place_[block] >= 0; }
  /// The least worthy; -1 when empty. Equal worth: the lower number.
  int32_t Least() const { return heap_.empty() ? -1 : heap_.front(); }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }

 private:
  bool Less(int32_t a, int32_t b) const;
  void Place(int32_t block, int32_t at);
  void Up(int32_t at);
  void Down(int32_t at);

  std::vector<int32_t> heap_;
  std::vector<int32_t> place_;  // by block: index into heap_, -1 when not in it
  std::vector<Worth> worth_;    // by block
};

}  // namespace slipstream::kv
