// Which tokens the cached blocks of one cache group hold: a path-compressed radix tree per cache
// key, whose unit is the block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::kv {

/// A node is a run of whole blocks that no other content branches off from; its children are sorted
/// by the tokens of their first block. A leaf may be one incomplete block instead: the tail of a
/// sequence that ended inside a block. No child is a prefix of its sibling, unless the longer one
/// has lost its block. Tokens are always compared, never hashes: a hit is a hit.
///
/// Numbers below `blocks` are blocks of the device, those from there on slots of the host tier: the
/// index cares only where it is asked what continues a block.
///
/// Where a window has let go of a block, its tokens stay as long as a later block of the path is
/// there: such a place is known without holding a block (-1).
///
/// Store and StorePartial throw std::bad_alloc and take no block then; the rest does not allocate,
/// except Find for its answer. Not thread-safe.
class RadixIndex {
 public:
  /// What the index knows of a token sequence.
  struct Found {
    std::vector<int32_t> blocks;  ///< Of the leading whole blocks that are known; -1: not there.
    int32_t tail_block = -1;      ///< A block whose first `tail_tokens` tokens come next.
    int32_t tail_tokens = 0;      ///< 0 <= tail_tokens <= block_tokens.

    /// Tokens that match, whether or not all their blocks are there.
    int64_t tokens(int32_t block_tokens) const {
      return static_cast<int64_t>(blocks.size()) * block_tokens + tail_tokens;
    }
  };

  /// Hears of a block that leaves the index, and of its name.
  using DropListener = std::function<void(int32_t block, uint64_t hash)>;

  /// Numbers that may be stored are below blocks + host_slots. `on_drop` hears of each block that
  /// an operation other than Remove takes out of the index.
  RadixIndex(int32_t block_tokens, int64_t blocks, int64_t host_slots, DropListener on_drop);
  ~RadixIndex();
  RadixIndex(const RadixIndex&) = delete;
  RadixIndex& operator=(const RadixIndex&) = delete;

  /// The longest known prefix of `tokens` under `key`.
  void Find(std::string_view key, std::span<const TokenId> tokens, Found* found) const;

  /// Makes the whole blocks of `tokens` (blocks.size() * block_tokens of them) known. Where the
  /// index has no block at place b >= first, it takes blocks[b] (-1: none is given); kept[b -
  /// first] is what it holds afterwards. An incomplete block that a new one covers is dropped.
  void Store(std::string_view key, std::span<const TokenId> tokens, size_t first,
             std::span<const int32_t> blocks, std::vector<int32_t>* kept);
  /// Adds `block` as the incomplete last block of `tokens`, whose number is no multiple of
  /// block_tokens and whose whole blocks are known. False when content that is known covers it.
  bool StorePartial(std::string_view key, std::span<const TokenId> tokens, int32_t block);

  bool Contains(int32_t block) const { return places_[block].node != nullptr; }
  /// No block that is there continues `block`.
  bool IsLeaf(int32_t block) const;
  /// No block of the device continues `block`; of a host slot, too.
  bool IsDeviceLeaf(int32_t block) const;
  /// The block that `block` continues; -1 when it is the first or the place before it is empty.
  int32_t Parent(int32_t block) const;
  /// Blocks before it on its path.
  int32_t Depth(int32_t block) const;
  /// The name of `block`: KeyHash of the key, chained with the tokens of each block through it.
  uint64_t Hash(int32_t block) const;
  /// The name of what `block` continues.
  uint64_t ParentHash(int32_t block) const;
  /// The tokens of `block`; fewer than block_tokens in an incomplete one. Until the next change.
  std::span<const TokenId> Tokens(int32_t block) const;
  /// What was `from` is `to`, which is not in the index.
  void Rename(int32_t from, int32_t to);
  /// Takes `block` out; its continuations stay.
  void Remove(int32_t block);
  /// Takes `block` and all its continuations out.
  void DropSubtree(int32_t block);
  /// Takes out everything under the keys that begin with `prefix`.
  void DropKeys(std::string_view prefix);

  /// Keys under which something is known.
  int64_t keys() const { return static_cast<int64_t>(roots_.size()); }

 private:
  using TokenSpan = std::span<const TokenId>;

  struct Node;
  struct Child {
    TokenId first = 0;  // of the node's tokens: most comparisons end here
    std::unique_ptr<Node> node;
  };
  struct Node {
    Node* parent = nullptr;
    int32_t depth = 0;            // blocks before this node
    int32_t live_children = 0;    // whose first block is there
    int32_t device_children = 0;  // whose first block is on the device
    std::vector<TokenId> tokens;
    std::vector<int32_t> blocks;
    std::vector<uint64_t> hashes;  // ChainHash of each block
    std::vector<Child> children;
    const std::string* key = nullptr;  // of a root
  };
  struct Place {
    Node* node = nullptr;
    int32_t index = 0;
  };
  struct RootHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using Roots = std::unordered_map<std::string, std::unique_ptr<Node>, RootHash, std::equal_to<>>;

  Node* MakeRoot(std::string_view key);
  size_t LowerBound(const Node& node, std::span<const TokenId> block) const;
  size_t EqualBlocks(const Node& node, std::span<const TokenId> tokens) const;
  Node* FindChild(const Node& node, std::span<const TokenId> rest) const;
  void FindTail(const Node& node, std::span<const TokenId> rest, Found* found) const;
  bool IsPartial(const Node& node) const { return node.tokens.size() % block_tokens_ != 0; }
  Node* Split(Node* node, size_t blocks);
  Node* Append(Node* node, std::span<const TokenId> tokens);
  Node* AddChild(Node* node, std::span<const TokenId> tokens);
  void DropCoveredPartial(Node* node, std::span<const TokenId> block);
  void NameBlocks(uint64_t parent, TokenSpan tokens, std::span<uint64_t> hashes) const;
  uint64_t LastHash(const Node& node) const;
  void SetBlock(Node* node, int32_t index, int32_t block);
  void Trim(Node* node);
  void Unlink(Node* node);
  void DropBelow(Node* node, size_t index);

  bool OnDevice(int32_t block) const { return block >= 0 && block < device_blocks_; }

  const int32_t block_tokens_;
  const int64_t device_blocks_;
  const DropListener on_drop_;
  std::vector<Place> places_;  // by block
  Roots roots_;
};

}  // namespace slipstream::kv
