// How content leaves the radix index.
#include <algorithm>
#include <cassert>
#include <utility>

#include "kv/radix_index.h"

namespace slipstream::kv {

RadixIndex::~RadixIndex() {
  // Not by recursion: a path may be as deep as it has blocks.
  for (auto& [key, root] : roots_) {
    Node* node = root.get();
    for (;;) {
      if (!node->children.empty()) {
        node = node->children.back().node.get();
      } else if (node->parent != nullptr) {
        node = node->parent;
        node->children.pop_back();
      } else {
        break;
      }
    }
  }
}

void RadixIndex::Rename(int32_t from, int32_t to) {
  const auto [node, index] = places_[from];
  SetBlock(node, index, to);
}

void RadixIndex::Remove(int32_t block) {
  const auto [node, index] = places_[block];
  SetBlock(node, index, -1);
  Trim(node);
}

void RadixIndex::Trim(Node* node) {
  while (node->children.empty()) {
    while (node->blocks.size() > 1 && node->blocks.back() < 0) {
      node->blocks.pop_back();
      node->hashes.pop_back();
      node->tokens.resize(node->blocks.size() * block_tokens_);
    }
    if (!node->blocks.empty() && node->blocks.front() >= 0) return;
    if (node->blocks.size() > 1) return;
    Node* parent = node->parent;
    Unlink(node);
    if (parent == nullptr) return;
    node = parent;
  }
}

void RadixIndex::Unlink(Node* node) {
  if (node->parent == nullptr) {
    roots_.erase(roots_.find(std::string_view(*node->key)));
    return;
  }
  std::vector<Child>& siblings = node->parent->children;
  const size_t at = LowerBound(
      *node->parent,
      TokenSpan(node->tokens).first(std::min<size_t>(node->tokens.size(), block_tokens_)));
  assert(siblings[at].node.get() == node);
  siblings.erase(siblings.begin() + static_cast<int64_t>(at));
}

void RadixIndex::DropBelow(Node* top, size_t index) {
  // Leaves first; each loses all its blocks and so is unlinked.
  Node* node = top;
  for (;;) {
    if (!node->children.empty()) {
      node = node->children.back().node.get();
      continue;
    }
    const bool last = node == top;
    Node* parent = node->parent;
    for (size_t i = node->blocks.size(); i-- > (last ? index : 0);) {
      const int32_t block = node->blocks[i];
      if (block < 0) continue;
      SetBlock(node, static_cast<int32_t>(i), -1);
      on_drop_(block, node->hashes[i]);
    }
    if (last) {
      Trim(node);
      return;
    }
    Unlink(node);
    node = parent;
  }
}

void RadixIndex::DropSubtree(int32_t block) {
  const auto [node, index] = places_[block];
  DropBelow(node, static_cast<size_t>(index));
}

void RadixIndex::DropKeys(std::string_view prefix) {
  for (auto next = roots_.begin(); next != roots_.end();) {
    const auto root = next++;
    if (std::string_view(root->first).starts_with(prefix)) DropBelow(root->second.get(), 0);
  }
}

}  // namespace slipstream::kv
