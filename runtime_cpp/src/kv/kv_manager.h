// Which blocks each sequence holds, in every cache group, and how many are promised to sequences
// that run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/group_spec.h"
#include "slipstream/status.h"

namespace slipstream::kv {

/// Sequences live in slots 0 <= slot < max_sequences. A sequence is opened with a reservation for
/// all the positions it may ever have, so that Extend never lacks a block: blocks themselves are
/// taken only when positions are computed. Not thread-safe.
class KvManager {
 public:
  /// `blocks[g]` blocks for `groups[g]`. `max_chunk` is the most positions of one sequence in one
  /// step.
  KvManager(std::vector<GroupSpec> groups, std::span<const int64_t> blocks, int32_t max_sequences,
            int32_t max_chunk);

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  const GroupSpec& group(int32_t g) const { return groups_[g].spec; }

  /// Blocks to reserve in each group for a sequence of at most `total_tokens` positions.
  std::vector<int64_t> Need(int64_t total_tokens) const;
  /// Blocks that are neither held by nor promised to an open sequence, per group.
  std::vector<int64_t> Unreserved() const;

  /// Opens `slot` with the reservation Need(total_tokens). kResourceExhausted (nothing changed)
  /// when a group lacks it.
  Status Open(int32_t slot, int64_t total_tokens);
  /// Prepares the positions [first, first + count): frees the blocks that left a window, takes the
  /// blocks that are missing. Positions are extended in order. kInternal when it would exceed the
  /// reservation.
  Status Extend(int32_t slot, int64_t first, int64_t count);
  /// Gives everything of the slot back.
  void Close(int32_t slot);
  bool is_open(int32_t slot) const { return open_[slot] != 0; }

  /// Physical blocks of a sequence in logical order; -1 where a window has freed the block.
  std::span<const int32_t> Table(int32_t slot, int32_t g) const {
    return groups_[g].sequences[slot].blocks;
  }
  /// Blocks that the sequence holds now.
  int64_t Held(int32_t slot, int32_t g) const { return groups_[g].sequences[slot].held; }

  int64_t total_blocks(int32_t g) const { return groups_[g].pool.total(); }
  int64_t free_blocks(int32_t g) const { return groups_[g].pool.free(); }
  int64_t total_blocks() const;
  int64_t free_blocks() const;

 private:
  struct Sequence {
    std::vector<int32_t> blocks;
    int64_t first_live = 0;  // blocks before it are -1
    int64_t held = 0;
    int64_t reserved = 0;
  };
  struct Group {
    GroupSpec spec;
    BlockPool pool;
    int64_t reserved = 0;  // sum over the open sequences
    std::vector<Sequence> sequences;
  };

  std::vector<Group> groups_;
  std::vector<uint8_t> open_;
  int32_t max_chunk_;
};

}  // namespace slipstream::kv
