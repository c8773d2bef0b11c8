#include "kv/radix_index.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kv/chain_hash.h"

namespace slipstream::kv {
namespace {

using TokenSpan = std::span<const TokenId>;

size_t CommonPrefix(TokenSpan a, TokenSpan b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + most, b.begin()).first -
                             a.begin());
}

bool Equal(TokenSpan a, TokenSpan b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool StartsWith(TokenSpan tokens, TokenSpan prefix) {
  return tokens.size() >= prefix.size() && Equal(tokens.first(prefix.size()), prefix);
}

TokenSpan FirstBlock(TokenSpan tokens, size_t block_tokens) {
  return tokens.first(std::min(tokens.size(), block_tokens));
}

}  // namespace

RadixIndex::RadixIndex(int32_t block_tokens, int64_t blocks, int64_t host_slots,
                       DropListener on_drop)
    : block_tokens_(block_tokens),
      device_blocks_(blocks),
      on_drop_(std::move(on_drop)),
      places_(blocks + host_slots) {}

size_t RadixIndex::LowerBound(const Node& node, TokenSpan block) const {
  const auto less = [this](const Child& child, TokenSpan query) {
    if (child.first != query.front()) return child.first < query.front();
    const TokenSpan tokens = FirstBlock(child.node->tokens, block_tokens_);
    return std::lexicographical_compare(tokens.begin(), tokens.end(), query.begin(), query.end());
  };
  return static_cast<size_t>(
      std::lower_bound(node.children.begin(), node.children.end(), block, less) -
      node.children.begin());
}

size_t RadixIndex::EqualBlocks(const Node& node, TokenSpan tokens) const {
  const size_t most = std::min(tokens.size(), node.tokens.size()) / block_tokens_;
  if (Equal(tokens.first(most * block_tokens_), TokenSpan(node.tokens).first(most * block_tokens_)))
    return most;
  return CommonPrefix(tokens, node.tokens) / block_tokens_;
}

RadixIndex::Node* RadixIndex::FindChild(const Node& node, TokenSpan rest) const {
  if (rest.size() < static_cast<size_t>(block_tokens_)) return nullptr;
  const TokenSpan block = rest.first(block_tokens_);
  const size_t at = LowerBound(node, block);
  if (at == node.children.size()) return nullptr;
  Node* child = node.children[at].node.get();
  return StartsWith(child->tokens, block) ? child : nullptr;
}

void RadixIndex::FindTail(const Node& node, TokenSpan rest, Found* found) const {
  const TokenSpan query = FirstBlock(rest, block_tokens_);
  if (query.empty()) return;
  // Sorted, so that the children that agree longest stand next to the query; farther ones agree
  // less, and are looked at only where a nearer one has lost its block.
  const auto take = [&](const Node& child) {
    const size_t common = CommonPrefix(query, child.tokens);
    if (common <= static_cast<size_t>(found->tail_tokens)) return false;
    if (child.blocks.front() < 0) return true;
    found->tail_block = child.blocks.front();
    found->tail_tokens = static_cast<int32_t>(common);
    return false;
  };
  const size_t at = LowerBound(node, query);
  for (size_t i = at; i < node.children.size() && take(*node.children[i].node); ++i) {
  }
  for (size_t i = at; i > 0 && take(*node.children[i - 1].node); --i) {
  }
}

void RadixIndex::Find(std::string_view key, TokenSpan tokens, Found* found) const {
  found->blocks.clear();
  found->tail_block = -1;
  found->tail_tokens = 0;
  const auto root = roots_.find(key);
  if (root == roots_.end()) return;
  const Node* node = root->second.get();
  TokenSpan rest = tokens;
  while (const Node* child = FindChild(*node, rest)) {
    const size_t equal = EqualBlocks(*child, rest);
    found->blocks.insert(found->blocks.end(), child->blocks.begin(), child->blocks.begin() + equal);
    rest = rest.subspan(equal * block_tokens_);
    if (equal < child->blocks.size()) {
      const size_t common =
          CommonPrefix(rest, TokenSpan(child->tokens).subspan(equal * block_tokens_));
      if (common > 0 && child->blocks[equal] >= 0) {
        found->tail_block = child->blocks[equal];
        found->tail_tokens = static_cast<int32_t>(common);
      }
      return;
    }
    node = child;
  }
  FindTail(*node, rest, found);
}

RadixIndex::Node* RadixIndex::MakeRoot(std::string_view key) {
  if (const auto found = roots_.find(key); found != roots_.end()) return found->second.get();
  const auto root = roots_.emplace(std::string(key), std::make_unique<Node>()).first;
  root->second->key = &root->first;
  return root->second.get();
}

RadixIndex::Node* RadixIndex::Split(Node* node, size_t blocks) {
  Node* parent = node->parent;
  auto upper = std::make_unique<Node>();
  const auto cut = static_cast<int64_t>(blocks);
  upper->tokens.assign(node->tokens.begin(), node->tokens.begin() + cut * block_tokens_);
  upper->blocks.assign(node->blocks.begin(), node->blocks.begin() + cut);
  upper->hashes.assign(node->hashes.begin(), node->hashes.begin() + cut);
  upper->children.resize(1);
  // Nothing fails from here on.
  upper->parent = parent;
  upper->depth = node->depth;
  Child& link = parent->children[LowerBound(*parent, FirstBlock(node->tokens, block_tokens_))];
  assert(link.node.get() == node);
  node->tokens.erase(node->tokens.begin(), node->tokens.begin() + cut * block_tokens_);
  node->blocks.erase(node->blocks.begin(), node->blocks.begin() + cut);
  node->hashes.erase(node->hashes.begin(), node->hashes.begin() + cut);
  node->depth += static_cast<int32_t>(blocks);
  node->parent = upper.get();
  upper->live_children = node->blocks.front() >= 0;
  upper->device_children = OnDevice(node->blocks.front());
  upper->children[0] = {node->tokens.front(), std::move(link.node)};
  link.node = std::move(upper);
  for (Node* half : {link.node.get(), node}) {
    for (size_t i = 0; i < half->blocks.size(); ++i) {
      if (half->blocks[i] >= 0) places_[half->blocks[i]] = {half, static_cast<int32_t>(i)};
    }
  }
  return link.node.get();
}

void RadixIndex::NameBlocks(uint64_t parent, TokenSpan tokens, std::span<uint64_t> hashes) const {
  for (size_t b = 0; b < hashes.size(); ++b) {
    parent = ChainHash(parent, FirstBlock(tokens.subspan(b * block_tokens_), block_tokens_));
    hashes[b] = parent;
  }
}

uint64_t RadixIndex::LastHash(const Node& node) const {
  return node.parent == nullptr ? KeyHash(*node.key) : node.hashes.back();
}

RadixIndex::Node* RadixIndex::AddChild(Node* node, TokenSpan tokens) {
  auto child = std::make_unique<Node>();
  child->tokens.assign(tokens.begin(), tokens.end());
  child->blocks.assign((tokens.size() + block_tokens_ - 1) / block_tokens_, -1);
  child->hashes.resize(child->blocks.size());
  NameBlocks(LastHash(*node), tokens, child->hashes);
  child->parent = node;
  child->depth = node->depth + static_cast<int32_t>(node->blocks.size());
  const size_t at = LowerBound(*node, FirstBlock(tokens, block_tokens_));
  const auto added = node->children.insert(node->children.begin() + static_cast<int64_t>(at),
                                           Child{tokens.front(), std::move(child)});
  return added->node.get();
}

RadixIndex::Node* RadixIndex::Append(Node* node, TokenSpan tokens) {
  DropCoveredPartial(node, tokens.first(block_tokens_));
  if (node->parent == nullptr || !node->children.empty()) return AddChild(node, tokens);
  // A path that grows stays one node.
  const size_t blocks = node->blocks.size() + tokens.size() / block_tokens_;
  const size_t before = node->blocks.size();
  if (node->blocks.capacity() < blocks) node->blocks.reserve(std::max(blocks, 2 * before));
  if (node->hashes.capacity() < blocks) node->hashes.reserve(node->blocks.capacity());
  node->tokens.insert(node->tokens.end(), tokens.begin(), tokens.end());
  node->blocks.resize(blocks, -1);
  node->hashes.resize(blocks);
  NameBlocks(node->hashes[before - 1], tokens, std::span(node->hashes).subspan(before));
  return node;
}

void RadixIndex::DropCoveredPartial(Node* node, TokenSpan block) {
  // No sibling is a prefix of another, so an incomplete block that `block` covers is the one before
  // it in order.
  const size_t at = LowerBound(*node, block);
  if (at == 0) return;
  Node* before = node->children[at - 1].node.get();
  if (!IsPartial(*before) || !StartsWith(block, before->tokens)) return;
  const int32_t dropped = before->blocks.front();
  const uint64_t hash = before->hashes.front();
  SetBlock(before, 0, -1);
  Unlink(before);
  on_drop_(dropped, hash);
}

void RadixIndex::Store(std::string_view key, TokenSpan tokens, size_t first,
                       std::span<const int32_t> blocks, std::vector<int32_t>* kept) {
  assert(tokens.size() == blocks.size() * block_tokens_ && first <= blocks.size());
  kept->assign(blocks.size() - first, -1);
  if (blocks.empty()) return;
  Node* node = MakeRoot(key);
  size_t index = 0;  // the place of the last block, in `node`
  try {
    for (size_t done = 0; done < blocks.size();) {
      const TokenSpan rest = tokens.subspan(done * block_tokens_);
      Node* child = FindChild(*node, rest);
      if (child == nullptr) {
        const size_t before = node->blocks.size();
        Node* added = Append(node, rest);
        index = (added == node ? before : 0) + blocks.size() - done - 1;
        node = added;
        break;
      }
      const size_t equal = EqualBlocks(*child, rest);
      done += equal;
      index = equal - 1;
      node = child;
      if (equal < child->blocks.size() && done < blocks.size()) node = Split(child, equal);
    }
  } catch (...) {
    Trim(node);
    throw;
  }
  Node* const end = node;
  for (size_t b = blocks.size(); b-- > first;) {
    if (node->blocks[index] < 0 && blocks[b] >= 0)
      SetBlock(node, static_cast<int32_t>(index), blocks[b]);
    (*kept)[b - first] = node->blocks[index];
    if (b == first) break;
    if (index == 0) {
      node = node->parent;
      index = node->blocks.size();
    }
    --index;
  }
  Trim(end);  // where no block was given, the path leads to nothing
}

bool RadixIndex::StorePartial(std::string_view key, TokenSpan tokens, int32_t block) {
  const size_t whole = tokens.size() / block_tokens_;
  const TokenSpan tail = tokens.subspan(whole * block_tokens_);
  assert(!tail.empty());
  Node* node = MakeRoot(key);
  bool stored = false;
  try {
    size_t done = 0;
    bool covered = false;
    while (done < whole && !covered) {
      Node* child = FindChild(*node, tokens.subspan(done * block_tokens_));
      if (child == nullptr) break;
      const size_t equal =
          EqualBlocks(*child, tokens.first(whole * block_tokens_).subspan(done * block_tokens_));
      done += equal;
      node = child;
      if (equal == child->blocks.size()) continue;
      covered =
          done < whole || StartsWith(TokenSpan(child->tokens).subspan(equal * block_tokens_), tail);
      if (!covered) node = Split(child, equal);
    }
    if (done == whole && !covered) {
      const size_t at = LowerBound(*node, tail);
      if (at == node->children.size() || !StartsWith(node->children[at].node->tokens, tail)) {
        DropCoveredPartial(node, tail);
        SetBlock(AddChild(node, tail), 0, block);
        stored = true;
      }
    }
  } catch (...) {
    Trim(node);
    throw;
  }
  Trim(node);
  return stored;
}

void RadixIndex::SetBlock(Node* node, int32_t index, int32_t block) {
  const int32_t old = node->blocks[index];
  if (index == 0 && node->parent != nullptr) {
    node->parent->live_children += (block >= 0) - (old >= 0);
    node->parent->device_children += OnDevice(block) - OnDevice(old);
  }
  if (old >= 0) places_[old] = {};
  if (block >= 0) places_[block] = {node, index};
  node->blocks[index] = block;
}

bool RadixIndex::IsLeaf(int32_t block) const {
  const auto [node, index] = places_[block];
  const size_t next = static_cast<size_t>(index) + 1;
  return next < node->blocks.size() ? node->blocks[next] < 0 : node->live_children == 0;
}

bool RadixIndex::IsDeviceLeaf(int32_t block) const {
  const auto [node, index] = places_[block];
  const size_t next = static_cast<size_t>(index) + 1;
  return next < node->blocks.size() ? !OnDevice(node->blocks[next]) : node->device_children == 0;
}

int32_t RadixIndex::Parent(int32_t block) const {
  const auto [node, index] = places_[block];
  if (index > 0) return node->blocks[index - 1];
  return node->parent->blocks.empty() ? -1 : node->parent->blocks.back();
}

int32_t RadixIndex::Depth(int32_t block) const {
  return places_[block].node->depth + places_[block].index;
}

uint64_t RadixIndex::Hash(int32_t block) const {
  return places_[block].node->hashes[places_[block].index];
}

uint64_t RadixIndex::ParentHash(int32_t block) const {
  const auto [node, index] = places_[block];
  return index > 0 ? node->hashes[index - 1] : LastHash(*node->parent);
}

TokenSpan RadixIndex::Tokens(int32_t block) const {
  const auto [node, index] = places_[block];
  return FirstBlock(TokenSpan(node->tokens).subspan(static_cast<size_t>(index) * block_tokens_),
                    block_tokens_);
}

}  // namespace slipstream::kv
