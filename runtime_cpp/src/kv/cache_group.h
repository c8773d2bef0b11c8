// The blocks of one cache group: who holds which, what the index knows, what is promised.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/block_copy.h"
#include "kv/block_pool.h"
#include "kv/eviction_queue.h"
#include "kv/group_spec.h"
#include "kv/kv_events.h"
#include "kv/radix_index.h"
#include "kv/retention.h"

namespace slipstream::kv {

using core::BlockCopy;

/// How a sequence stands to the pool and to the cache.
struct SequenceTerms {
  std::string_view key;                    ///< Of the cache; must outlive the call only.
  uint64_t writer = 0;                     ///< Names the opened sequence; never reused.
  bool reserve = false;                    ///< All blocks it may ever need are promised.
  bool stores = false;                     ///< What it computes enters the index.
  std::span<const KvRetention> retention;  ///< Lives as long as the sequence is open.
};

/// Accounts, in blocks. A pinned block counts once however many share it. What is promised to the
/// reserving sequences:
///   full group:   need - held. Shared blocks stay held until the end, so they never come due.
///   window group: need - secured, where only blocks that nobody else holds count: a shared block
///                 leaves the window of one and stays pinned by the other, and then the first
///                 needs a block of its own in its place.
/// and the copies that forked sequences will make of the block that both go on writing (debt).
/// Unreserved() = total - pinned - promised - debt is never negative, so that a reserving sequence
/// always finds a free or evictable block.
///
/// The blocks of a full group are evicted leaves first: whoever holds an indexed block holds all
/// blocks before it too.
///
/// A block that is evicted moves to a slot of the host tier, where there is one that is free or
/// worth less; a hit brings it back. The index names slots by the numbers from pool().total() on. A
/// content is in one of both places only. On a path of a full group the blocks of the device come
/// first, those of the host follow. What moves is ordered in the list of copies, which must be
/// carried out in order. Not thread-safe.
class CacheGroup {
 public:
  CacheGroup(int32_t number, const GroupSpec& spec, int64_t blocks, int64_t host_slots,
             int32_t max_sequences, EventLog* events);
  CacheGroup(CacheGroup&&) = delete;

  const GroupSpec& spec() const { return spec_; }
  const BlockPool& pool() const { return pool_; }
  int64_t Unreserved() const;
  std::span<const int32_t> Table(int32_t slot) const { return tables_[slot].blocks; }
  int64_t Held(int32_t slot) const { return tables_[slot].held; }
  int64_t host_slots() const { return host_slots_; }
  int64_t host_used() const { return host_slots_ - static_cast<int64_t>(host_free_.size()); }
  /// Moves ordered since the start.
  int64_t moved_out() const { return moved_out_; }
  int64_t moved_in() const { return moved_in_; }

  /// Looks `tokens` up; the answer stays until the next change.
  void Find(std::string_view key, std::span<const TokenId> tokens, RadixIndex::Found* found) const {
    index_.Find(key, tokens, found);
  }
  /// The longest length <= most whose blocks are there: all of them in a full group, those that the
  /// next position reads in a window group.
  int64_t LongestHit(const RadixIndex::Found& found, int64_t most) const;

  /// Blocks that Open takes from Unreserved().
  int64_t OpenCost(const RadixIndex::Found& found, int64_t hit, int64_t need, bool reserve) const;
  /// Blocks of a hit that sequences hold already.
  int64_t HeldOfHit(const RadixIndex::Found& found, int64_t hit) const;
  /// Gives `slot` the first `hit` tokens of what was found. A block that the hit ends in is copied.
  /// The cost must be there. Throws std::bad_alloc and changes nothing then.
  void Open(int32_t slot, const SequenceTerms& terms, const RadixIndex::Found& found, int64_t hit,
            int64_t need, std::vector<BlockCopy>* copies);

  /// Gives `slot` free blocks for what the position after `tokens` of them reads. The cost (need,
  /// or the blocks where it does not reserve) must be there. Throws std::bad_alloc and changes
  /// nothing then.
  void OpenEmpty(int32_t slot, const SequenceTerms& terms, int64_t tokens, int64_t need,
                 std::vector<BlockCopy>* copies);

  /// Blocks that Extend lacks beyond Unreserved() (a sequence that does not reserve) or beyond the
  /// need (one that does); 0: it will do.
  int64_t ExtendLacks(int32_t slot, int64_t first, int64_t count) const;
  /// Makes room in the table, and tells how much the list of copies must have so that Extend cannot
  /// fail.
  size_t ReserveExtend(int32_t slot, int64_t first, int64_t count);
  void Extend(int32_t slot, uint64_t writer, int64_t first, int64_t count,
              std::vector<BlockCopy>* copies) noexcept;

  /// Puts the whole blocks of the first `computed` tokens into the index. Where it has the content
  /// already, the sequence takes the stored block and frees its own; what is on the host is
  /// replaced by the block of the sequence. Throws std::bad_alloc: some blocks stay outside of the
  /// index then.
  void Commit(int32_t slot, const SequenceTerms& terms, std::span<const TokenId> tokens,
              int64_t computed);

  /// Blocks of Unreserved() that taking over what was found up to `hit` (whole blocks) costs.
  int64_t AdoptCost(int32_t slot, const RadixIndex::Found& found, int64_t hit) const;
  /// As ReserveExtend, for Adopt.
  size_t ReserveAdopt(int32_t slot, int64_t hit);
  void Adopt(int32_t slot, const RadixIndex::Found& found, int64_t hit,
             std::vector<BlockCopy>* copies) noexcept;

  /// Blocks of Unreserved() that a child of `parent` costs, which shares `computed` tokens.
  int64_t ForkCost(int32_t parent, int64_t computed, int64_t need, bool reserve) const;
  /// Throws std::bad_alloc and changes nothing then.
  void Fork(int32_t parent, int32_t child, int64_t computed, int64_t need,
            const SequenceTerms& terms);

  /// Stores the incomplete last block of the first `computed` tokens, if the sequence alone holds
  /// it. Throws std::bad_alloc and changes nothing then.
  void CommitTail(int32_t slot, const SequenceTerms& terms, std::span<const TokenId> tokens,
                  int64_t computed);
  /// Takes out of the index what `writer` wrote and nobody else holds.
  void Forget(int32_t slot, uint64_t writer, const RadixIndex::Found& found) noexcept;
  /// Gives all blocks of the slot back.
  void Close(int32_t slot) noexcept;

  /// Takes everything under the keys that begin with `prefix` out of the index.
  void DropKeys(std::string_view prefix) noexcept { index_.DropKeys(prefix); }
  /// The clock of "least recently used": everything released between two ticks is of one age.
  /// `milliseconds` is the time of a steady clock.
  void Tick(int64_t milliseconds) {
    ++now_;
    milliseconds_ = milliseconds;
  }

 private:
  struct Sequence {
    std::vector<int32_t> blocks;
    int64_t first_live = 0;  // blocks before it are -1
    int64_t held = 0;
    int64_t need = 0;       // promised; 0 when it does not reserve
    int64_t committed = 0;  // leading blocks that the index was given
    bool reserve = false;
    std::span<const KvRetention> retention;
  };
  struct BlockInfo {
    uint64_t writer = 0;
    uint64_t last_use = 0;
    int32_t priority = kDefaultKvPriority;
    int64_t expires = 0;       // milliseconds, when the priority ends; 0: never
    bool shared_tail = false;  // forked sequences will each go on writing it
    bool kept = false;         // a slot that a hit is about to bring in
  };

  bool window() const { return spec_.window > 0; }
  int64_t FirstLive(int64_t position) const { return FirstLiveBlock(spec_, position); }
  bool MustCopy(int32_t block) const;
  int64_t TakeCost(int32_t block, bool reserve) const;
  int32_t FoundBlock(const RadixIndex::Found& found, int64_t index) const;
  void Keep(int32_t block, bool reserve);
  int32_t CopyOf(int32_t source, const SequenceTerms& terms, std::vector<BlockCopy>* copies);
  bool OnHost(int32_t block) const { return block >= pool_.total(); }
  Worth WorthOf(int32_t block) const;
  int32_t TakeFree(bool reserve, uint64_t writer, std::vector<BlockCopy>* copies);
  int32_t TakeSlot(int32_t victim);
  void MakeFree(int32_t victim, std::vector<BlockCopy>* copies);
  int32_t BringIn(int32_t slot, bool reserve, std::vector<BlockCopy>* copies);
  void ReplaceSlot(int32_t slot, int32_t block);
  void Hold(int32_t block, bool reserve);
  void Release(const Sequence& sequence, int64_t index);
  void Dequeue(int32_t block);
  void Expire();
  void RecordStored(std::string_view key, std::span<const int32_t> blocks) noexcept;
  void RecordRemoved(uint64_t hash) noexcept;
  void RecordMoved(uint64_t hash, Tier from, Tier to) noexcept;
  void Drop(int32_t block);
  void OnDrop(int32_t block, uint64_t hash);
  void QueueIfEvictable(int32_t block);

  const int32_t number_;
  const GroupSpec spec_;
  const int64_t host_slots_;
  BlockPool pool_;
  EvictionQueue queue_;             // of the device
  EvictionQueue host_queue_;        // slots, in the numbers of the index
  EvictionQueue expiring_;          // of both, those whose priority ends; the first to end first
  std::vector<int32_t> host_free_;  // likewise; the one freed last is taken first
  RadixIndex index_;
  std::vector<BlockInfo> infos_;  // by block or slot
  std::vector<Sequence> tables_;  // by slot
  std::vector<int32_t> kept_;     // scratch of Commit
  int64_t need_ = 0;              // sum over reserving sequences
  int64_t debt_ = 0;
  uint64_t now_ = 0;
  int64_t milliseconds_ = 0;
  int64_t moved_out_ = 0;
  int64_t moved_in_ = 0;
  EventLog* const events_;
  std::vector<int32_t> stored_;  // scratch of Commit
};

}  // namespace slipstream::kv
