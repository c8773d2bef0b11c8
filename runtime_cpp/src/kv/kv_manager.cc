#include "kv/kv_manager.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace slipstream::kv {

KvManager::KvManager(std::vector<GroupSpec> groups, std::span<const int64_t> blocks,
                     int32_t max_sequences, int32_t max_chunk)
    : open_(max_sequences, 0), max_chunk_(max_chunk) {
  assert(groups.size() == blocks.size());
  groups_.reserve(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    groups_.push_back({groups[g], BlockPool(blocks[g]), 0, std::vector<Sequence>(max_sequences)});
  }
}

std::vector<int64_t> KvManager::Need(int64_t total_tokens) const {
  std::vector<int64_t> need;
  need.reserve(groups_.size());
  for (const Group& group : groups_)
    need.push_back(PeakBlocks(group.spec, total_tokens, max_chunk_));
  return need;
}

std::vector<int64_t> KvManager::Unreserved() const {
  std::vector<int64_t> blocks;
  blocks.reserve(groups_.size());
  for (const Group& group : groups_) blocks.push_back(group.pool.total() - group.reserved);
  return blocks;
}

Status KvManager::Open(int32_t slot, int64_t total_tokens) {
  assert(!open_[slot]);
  const std::vector<int64_t> need = Need(total_tokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t available = groups_[g].pool.total() - groups_[g].reserved;
    if (need[g] > available) {
      return Status(StatusCode::kResourceExhausted,
                    "KV cache group " + std::to_string(g) + " has " + std::to_string(available) +
                        " unreserved blocks; the sequence needs " + std::to_string(need[g]) + ".");
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].reserved += need[g];
    groups_[g].sequences[slot].reserved = need[g];
  }
  open_[slot] = 1;
  return Status::Ok();
}

Status KvManager::Extend(int32_t slot, int64_t first, int64_t count) {
  assert(open_[slot]);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Sequence& sequence = group.sequences[slot];
    const int64_t live =
        std::min<int64_t>(FirstLiveBlock(group.spec, first), sequence.blocks.size());
    for (; sequence.first_live < live; ++sequence.first_live) {
      group.pool.Release(sequence.blocks[sequence.first_live]);
      sequence.blocks[sequence.first_live] = -1;
      --sequence.held;
    }
    const int64_t cover = BlocksToCover(group.spec, first + count);
    // Where memory runs out, no block may already be taken from the pool.
    sequence.blocks.reserve(std::max<size_t>(sequence.blocks.capacity(), cover));
    while (static_cast<int64_t>(sequence.blocks.size()) < cover) {
      const std::optional<int32_t> block =
          sequence.held < sequence.reserved ? group.pool.Allocate() : std::nullopt;
      if (!block) {
        return Status(StatusCode::kInternal,
                      "A sequence outgrew its reservation of " + std::to_string(sequence.reserved) +
                          " blocks in KV cache group " + std::to_string(g) + " at position " +
                          std::to_string(first) + ". Please report this.");
      }
      sequence.blocks.push_back(*block);
      ++sequence.held;
    }
  }
  return Status::Ok();
}

void KvManager::Close(int32_t slot) {
  for (Group& group : groups_) {
    Sequence& sequence = group.sequences[slot];
    // Last block first, so that the next sequence gets them back in the same order.
    for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) {
      if (*block >= 0) group.pool.Release(*block);
    }
    group.reserved -= sequence.reserved;
    sequence = Sequence();
  }
  open_[slot] = 0;
}

int64_t KvManager::total_blocks() const {
  int64_t sum = 0;
  for (const Group& group : groups_) sum += group.pool.total();
  return sum;
}

int64_t KvManager::free_blocks() const {
  int64_t sum = 0;
  for (const Group& group : groups_) sum += group.pool.free();
  return sum;
}

}  // namespace slipstream::kv
