#include "text/byte_trie.h"

namespace slipstream::text {

ByteTrie::ByteTrie(const std::vector<std::string_view>& keys) {
  // Level by level over the sorted keys, so that the edges of a node lie side by side. Not
  // recursive: a key may be long.
  struct Pending {
    size_t begin, end, depth;
    uint32_t node;
  };
  nodes_.emplace_back();
  std::vector<Pending> queue = {{0, keys.size(), 0, 0}};
  for (size_t next = 0; next < queue.size(); ++next) {
    auto [begin, end, depth, node] = queue[next];
    if (begin < end && keys[begin].size() == depth) {
      nodes_[node].key = static_cast<int32_t>(begin);
      ++begin;
    }
    nodes_[node].first_edge = static_cast<uint32_t>(edge_bytes_.size());
    while (begin < end) {
      const char byte = keys[begin][depth];
      size_t same = begin;
      while (same < end && keys[same][depth] == byte) ++same;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edge_bytes_.push_back(static_cast<uint8_t>(byte));
      edge_nodes_.push_back(child);
      ++nodes_[node].edge_count;
      if (node == 0) root_[static_cast<uint8_t>(byte)] = child;
      queue.push_back({begin, same, depth + 1, child});
      begin = same;
    }
  }
}

uint32_t ByteTrie::Child(uint32_t node, uint8_t byte) const {
  uint32_t low = nodes_[node].first_edge;
  uint32_t high = low + nodes_[node].edge_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (edge_bytes_[middle] < byte) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found =
      low < nodes_[node].first_edge + nodes_[node].edge_count && edge_bytes_[low] == byte;
  return found ? edge_nodes_[low] : 0;
}

}  // namespace slipstream::text
