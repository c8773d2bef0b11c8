// Which blocks each sequence holds, in every cache group; which are cached, shared and promised.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_copy.h"
#include "kv/cache_group.h"
#include "kv/group_spec.h"
#include "kv/prefix_registry.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::kv {

struct KvOptions {
  bool enable_cache = true;  ///< False: nothing is found, nothing is kept.
  int64_t max_events = 0;    ///< Events that wait to be taken; 0: none are recorded.
  /// Slots of the host tier per group, each as large as a block; empty: no host tier.
  std::vector<int64_t> host_slots;
  /// Milliseconds of a steady clock, for retention; empty: the system's.
  std::function<int64_t()> clock;
};

/// How to open a sequence.
struct OpenRequest {
  /// Names adapter identity and generation, weight version and salt: sequences of different keys
  /// never share a block.
  std::string_view cache_key;
  /// All tokens that are known: the prompt, or prompt and generated ones after a preemption.
  std::span<const TokenId> tokens;
  int64_t total_tokens = 0;  ///< Most positions it may ever have.
  /// Promise all blocks that it may ever need (GUARANTEED_NO_EVICT), so that Extend never lacks
  /// one. False (MAX_UTILIZATION): blocks are taken as long as there are any.
  bool reserve = true;
  bool read_cache = true;   ///< Begin with what the index has.
  bool write_cache = true;  ///< Keep what is computed in the index.
  /// What its blocks are worth as cache; the last sequence that says so decides. Blocks that no
  /// range meets keep what they had.
  std::vector<KvRetention> retention;
};

/// Sequences live in slots 0 <= slot < max_sequences:
///
///     Result<int64_t> cached = kv.Open(slot, {.cache_key = key, .tokens = prompt, ...});
///     per step: kv.Extend(slot, first, rows); carry kv.TakeCopies() out; run the step;
///               kv.Commit(slot, tokens, computed);
///     kv.Close(slot, tokens, computed, true);
///
/// Blocks that complete become visible to other sequences with Commit, while their producer still
/// runs; what is closed stays as cache until its blocks are needed. A block is pinned while open
/// sequences hold it, however many share it; cached blocks that nobody holds are evictable and
/// count as available.
///
/// With a host tier, blocks that are evicted from the pool move to its slots, as long as these are
/// free or hold what is worth less, and come back where they are found: the list of copies has the
/// moves. Not thread-safe.
class KvManager {
 public:
  /// `blocks[g]` blocks for `groups[g]`. `max_chunk` is the most positions of one sequence in one
  /// step.
  KvManager(std::vector<GroupSpec> groups, std::span<const int64_t> blocks, int32_t max_sequences,
            int32_t max_chunk, const KvOptions& options = {});

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  const GroupSpec& group(int32_t g) const { return groups_[g]->spec(); }

  /// Most blocks that a sequence of at most `total_tokens` positions holds at once, per group.
  std::vector<int64_t> Need(int64_t total_tokens) const;
  /// Blocks that are neither pinned by nor promised to an open sequence, per group.
  std::vector<int64_t> Unreserved() const;

  /// Whether `tokens` positions of the request, beyond what it would share with open sequences, and
  /// `spare` blocks in each group can be had now without a promise.
  bool HasRoom(const OpenRequest& request, int64_t tokens, int64_t spare) const;
  /// Tokens that Open would find for these, at most tokens.size() - 1.
  int64_t Match(std::string_view cache_key, std::span<const TokenId> tokens) const;

  /// Opens `slot` and gives the number of leading tokens whose keys and values it has: the longest
  /// prefix that is cached in every group (a window group needs only the last window - 1 of them),
  /// at most tokens.size() - 1, so that a row is left to compute. Where it ends inside a block,
  /// that block is copied. kResourceExhausted (nothing changed) when a promise, or holding what was
  /// found, would exceed what is unreserved. Throws std::bad_alloc and changes nothing then.
  Result<int64_t> Open(int32_t slot, const OpenRequest& request);

  /// Opens `slot` with a block for each place that the position after request.tokens reads, without
  /// looking into the index: for keys and values that come from elsewhere. Write the blocks, then
  /// Commit. kResourceExhausted (nothing changed) as for Open. Throws std::bad_alloc and changes
  /// nothing then.
  Status OpenEmpty(int32_t slot, const OpenRequest& request);

  /// Prepares the positions [first, first + count): frees the blocks that left a window, takes the
  /// blocks that are missing, evicting cached ones if it must, and copies a block that would be
  /// written while others hold it or the index knows it. Positions are extended in order.
  /// kResourceExhausted (nothing changed) when a sequence that does not reserve lacks blocks;
  /// kInternal when one that reserves would exceed its promise. Throws std::bad_alloc and changes
  /// nothing then.
  Status Extend(int32_t slot, int64_t first, int64_t count);

  /// The copies, between the tiers too, that must be carried out in this order before the next
  /// step, since the last call.
  std::vector<BlockCopy> TakeCopies();

  /// The keys and values of the first `computed` of `tokens` are written. Whole blocks enter the
  /// index; where it holds the content already, the sequence takes the stored block and frees its
  /// own (equal bit for bit by the numerics contract). Where memory runs out, the sequence stores
  /// nothing any more.
  void Commit(int32_t slot, std::span<const TokenId> tokens, int64_t computed) noexcept;

  /// Takes over whole blocks that others have computed since, for a sequence in its prompt, and
  /// gives the new number of computed tokens: `computed` itself or a multiple of every group's
  /// block_tokens, at most tokens.size() - 1.
  int64_t Adopt(int32_t slot, std::span<const TokenId> tokens, int64_t computed);

  /// The open sequence of the same key that will compute the block that `slot` computes next: their
  /// tokens agree through its end, it is at least as far (of equals, the one opened first), and it
  /// writes the cache. -1: none, `slot` must compute it itself. Following producers never leads
  /// back to `slot`.
  int32_t Producer(int32_t slot) const;

  /// Opens `child` with all that `parent` has committed (Open, Commit and Adopt tell how much that
  /// is), sharing every block; whoever writes into the shared last block copies it first. The child
  /// has the parent's key and cache use. kResourceExhausted (nothing changed) as for Open, and when
  /// that copy cannot be promised. Throws std::bad_alloc and changes nothing then.
  Status Fork(int32_t parent, int32_t child, int64_t total_tokens, bool reserve);

  /// Gives everything of the slot back. `keep`: what was computed, the incomplete last block too,
  /// stays as evictable cache. False, after a failure: what this sequence wrote and nobody else
  /// holds leaves the index.
  void Close(int32_t slot, std::span<const TokenId> tokens, int64_t computed, bool keep) noexcept;
  bool is_open(int32_t slot) const { return sequences_[slot].writer != 0; }

  /// Forgets all that is cached under the keys that begin with `prefix`. Open sequences with such a
  /// key keep their blocks and store nothing from here on.
  void DropKey(std::string_view prefix) noexcept;
  /// Forgets all that is cached.
  void Reset() noexcept { DropKey({}); }

  /// Physical blocks of a sequence in logical order; -1 where a window has freed the block.
  std::span<const int32_t> Table(int32_t slot, int32_t g) const { return groups_[g]->Table(slot); }
  /// Blocks that the sequence holds now.
  int64_t Held(int32_t slot, int32_t g) const { return groups_[g]->Held(slot); }

  /// What happened to cached blocks since the last call, oldest first. Beyond max_events the oldest
  /// are dropped, and counted.
  std::vector<KvEvent> TakeEvents() { return events_.Take(); }
  int64_t dropped_events() const { return events_.dropped(); }

  // Gauges: total = free + evictable + pinned. Cached blocks are evictable or pinned.
  int64_t total_blocks(int32_t g) const { return groups_[g]->pool().total(); }
  int64_t free_blocks(int32_t g) const { return groups_[g]->pool().free(); }
  int64_t evictable_blocks(int32_t g) const { return groups_[g]->pool().evictable(); }
  int64_t pinned_blocks(int32_t g) const { return groups_[g]->pool().pinned(); }
  int64_t cached_blocks(int32_t g) const { return groups_[g]->pool().cached(); }
  int64_t total_blocks() const;
  int64_t free_blocks() const;
  int64_t evictable_blocks() const;
  int64_t pinned_blocks() const;
  int64_t cached_blocks() const;
  int64_t host_total_slots() const;
  int64_t host_used_slots() const;
  /// Moves that were ordered since the start.
  int64_t moved_out() const;
  int64_t moved_in() const;

 private:
  struct Sequence {
    uint64_t writer = 0;  // 0: closed
    bool reserve = false;
    bool reads = false;
    bool stores = false;
    std::vector<KvRetention> retention;
  };

  SequenceTerms Terms(int32_t slot) const;
  int64_t LongestHit(int64_t most) const;
  Status TryOpen(int32_t slot, const SequenceTerms& terms, std::span<const int64_t> need,
                 int64_t hit);
  void StopStoring(int32_t slot) noexcept;
  void CloseBlocks(int32_t slot) noexcept;
  void Tick();
  void ReserveCopies(size_t more);
  template <typename Gauge>
  int64_t Sum(Gauge gauge) const;

  const int32_t max_chunk_;
  const KvOptions options_;
  EventLog events_;
  std::vector<std::unique_ptr<CacheGroup>> groups_;
  int64_t unit_ = 1;  // least common multiple of the groups' block_tokens
  PrefixRegistry registry_;
  std::vector<Sequence> sequences_;  // by slot
  std::vector<BlockCopy> copies_;
  mutable std::vector<RadixIndex::Found> found_;  // by group: scratch of one call
  uint64_t writers_ = 0;
};

}  // namespace slipstream::kv
