// Block pools whose cells hold the name of the whole prefix that a position was computed from, so
// that a wrong, stale, early freed or wrongly shared block shows wherever it is read.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kv/chain_hash.h"
#include "kv/kv_manager.h"

namespace slipstream::kv {

inline GroupSpec Full(int32_t block_tokens) {
  return {.block_tokens = block_tokens, .window = 0, .bytes_per_block = 64};
}
inline GroupSpec Window(int32_t block_tokens, int32_t window) {
  return {.block_tokens = block_tokens, .window = window, .bytes_per_block = 64};
}

class FakePool {
 public:
  FakePool(std::vector<GroupSpec> groups, const std::vector<int64_t>& blocks,
           const std::vector<int64_t>& host_slots = {})
      : groups_(std::move(groups)) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const std::vector<uint64_t> empty(groups_[g].block_tokens, 0);
      cells_.emplace_back(blocks[g], empty);
      host_.emplace_back(host_slots.empty() ? 0 : host_slots[g], empty);
    }
  }

  void Copy(const std::vector<BlockCopy>& copies) {
    for (const BlockCopy& copy : copies) {
      ASSERT_TRUE(copy.from != copy.to || copy.source != copy.target);
      Tiered(copy.to).at(copy.group).at(copy.target) =
          Tiered(copy.from).at(copy.group).at(copy.source);
    }
  }

  /// Writes the positions [first, first + count) of a sequence through its tables.
  void Write(const KvManager& kv, int32_t slot, std::string_view key,
             const std::vector<TokenId>& tokens, int64_t first, int64_t count) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      uint64_t name = KeyHash(key);
      for (int64_t p = 0; p < first + count; ++p) {
        name = MixHash(name, static_cast<uint64_t>(tokens[p]) + 1);
        if (p >= first) *Cell(kv, slot, g, p) = name;
      }
    }
  }

  /// Checks every position that a query at `position` reads below itself.
  void CheckReads(const KvManager& kv, int32_t slot, std::string_view key,
                  const std::vector<TokenId>& tokens, int64_t position) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t window = groups_[g].window;
      const int64_t oldest = window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
      uint64_t name = KeyHash(key);
      for (int64_t p = 0; p < position; ++p) {
        name = MixHash(name, static_cast<uint64_t>(tokens[p]) + 1);
        if (p < oldest) continue;
        const uint64_t* cell = Cell(kv, slot, g, p);
        ASSERT_NE(cell, nullptr);
        ASSERT_EQ(*cell, name) << "group " << g << " slot " << slot << " position " << p << " of "
                               << position << " holds something else";
      }
    }
  }

  uint64_t* Cell(const KvManager& kv, int32_t slot, size_t g, int64_t position) {
    const auto table = kv.Table(slot, static_cast<int32_t>(g));
    const int64_t index = position / groups_[g].block_tokens;
    if (index >= static_cast<int64_t>(table.size()) || table[index] < 0) {
      ADD_FAILURE() << "group " << g << " slot " << slot << " has no block for position "
                    << position;
      return nullptr;
    }
    return &cells_[g][table[index]][position % groups_[g].block_tokens];
  }

 private:
  using Cells = std::vector<std::vector<std::vector<uint64_t>>>;
  Cells& Tiered(Tier tier) { return tier == Tier::kDevice ? cells_ : host_; }

  std::vector<GroupSpec> groups_;
  Cells cells_;
  Cells host_;
};

}  // namespace slipstream::kv
