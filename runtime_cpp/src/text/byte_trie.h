// A trie over byte strings, for finding every key that starts at a place in a text. Immutable after
// building.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace slipstream::text {

class ByteTrie {
 public:
  ByteTrie() = default;
  /// `keys` must be sorted (as bytes), without duplicates and without the empty string. The value
  /// of a key is its index.
  explicit ByteTrie(const std::vector<std::string_view>& keys);

  /// Index of the longest key at `position`; -1 when there is none.
  int32_t Longest(std::string_view text, size_t position) const {
    int32_t longest = -1;
    ForEach(text, position, [&](int32_t key, size_t) { longest = key; });
    return longest;
  }

  /// Calls visit(index, size) for every key that `text` has at `position`, shortest first.
  template <class Visit>
  void ForEach(std::string_view text, size_t position, Visit&& visit) const {
    if (nodes_.empty() || position >= text.size()) return;
    uint32_t node = root_[static_cast<uint8_t>(text[position])];
    for (size_t i = position + 1; node != 0; ++i) {
      if (nodes_[node].key >= 0) visit(nodes_[node].key, i - position);
      if (i == text.size()) return;
      node = Child(node, static_cast<uint8_t>(text[i]));
    }
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    int32_t key = -1;
  };

  // 0 when there is none: no edge leads to the root.
  uint32_t Child(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::vector<uint8_t> edge_bytes_;  // those of a node side by side, sorted
  std::vector<uint32_t> edge_nodes_;
  uint32_t root_[256] = {};
};

}  // namespace slipstream::text
