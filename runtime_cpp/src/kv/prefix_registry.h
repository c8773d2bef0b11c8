// Which open sequences are about to compute the same block, so that one can wait for the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::kv {

/// Each open sequence that knows all tokens of the next block it computes is filed under a hash of
/// its key and its tokens through the end of that block; tokens are compared before two are called
/// the same. All operations cost O(new tokens) or a constant. Not thread-safe.
class PrefixRegistry {
 public:
  /// `block_tokens`: positions of the unit in which sequences share.
  PrefixRegistry(int32_t max_sequences, int64_t block_tokens);

  /// Throws std::bad_alloc and changes nothing then, as Update does.
  void Open(int32_t slot, std::string_view key, std::span<const TokenId> tokens, int64_t computed,
            bool produces);
  /// The sequence has computed the first `computed` of `tokens`, which begin with those that it
  /// had.
  void Update(int32_t slot, std::span<const TokenId> tokens, int64_t computed);
  /// Whether others may wait for it from here on.
  void SetProduces(int32_t slot, bool produces);
  void Close(int32_t slot) noexcept;

  /// The sequence that others wait for: it will compute the block that `slot` needs next, is the
  /// farthest of all that will and, of those, the one opened first. -1 when that is `slot` itself.
  int32_t Producer(int32_t slot) const;

  std::string_view key(int32_t slot) const { return slots_[slot].key; }
  int64_t computed(int32_t slot) const { return slots_[slot].computed; }
  std::span<const TokenId> tokens(int32_t slot) const { return slots_[slot].tokens; }

 private:
  struct Slot {
    std::string key;
    std::vector<TokenId> tokens;
    int64_t computed = 0;
    uint64_t opened = 0;  // 0: closed
    uint64_t chain = 0;   // hash of the key and the first `chained` units
    int64_t chained = 0;
    bool produces = false;
    // The filing: units of tokens through the end of the next block, 0 when not filed.
    int64_t filed_units = 0;
    uint64_t filed_hash = 0;
    int32_t previous = -1;
    int32_t next = -1;
    // The sequence that it last agreed with, and through which token.
    mutable uint64_t agreed_with = 0;
    mutable int64_t agreed = 0;
  };

  // Slots with equal low bits of their hash, and the farthest of those with one hash.
  struct Bucket {
    int32_t head = -1;
    bool known = false;  // whether `farthest` is
    uint64_t hash = 0;
    int32_t farthest = -1;
  };

  static bool Ahead(const Slot& a, const Slot& b) {
    return a.computed != b.computed ? a.computed > b.computed : a.opened < b.opened;
  }
  void File(int32_t slot);
  void Unfile(int32_t slot);
  bool Agree(const Slot& a, const Slot& b) const;
  void Promote(int32_t slot) const;
  Bucket& BucketOf(uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }

  const int64_t unit_;
  std::vector<Slot> slots_;
  mutable std::vector<Bucket> buckets_;  // a power of two
  uint64_t opened_ = 0;
};

}  // namespace slipstream::kv
