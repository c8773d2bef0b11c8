// The free list and reference counts of the KV blocks of one cache group.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace slipstream::kv {

/// Hands out block numbers 0 <= b < total(). A block is free when nobody holds a reference to it.
/// The order is deterministic: the block that became free last is handed out first, because it is
/// likeliest to be in a cache. Not thread-safe.
class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);

  /// A free block with one reference, or nothing when all are in use.
  std::optional<int32_t> Allocate();
  /// One more holder of a block that is in use.
  void AddReference(int32_t block);
  /// One holder less; true when that freed the block.
  bool Release(int32_t block);

  int64_t total() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int32_t references(int32_t block) const { return references_[block]; }

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
};

}  // namespace slipstream::kv
