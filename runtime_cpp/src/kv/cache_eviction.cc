// What cached blocks are worth, how they leave the device and come back, and what is told of it.
#include <cassert>
#include <new>
#include <utility>

#include "kv/cache_group.h"

namespace slipstream::kv {

int32_t CacheGroup::TakeFree(bool reserve, uint64_t writer, std::vector<BlockCopy>* copies) {
  if (pool_.free() == 0) {
    Expire();
    MakeFree(queue_.Least(), copies);
  }
  const int32_t block = *pool_.Allocate(reserve);
  infos_[block] = {.writer = writer};
  return block;
}

Worth CacheGroup::WorthOf(int32_t block) const {
  return {infos_[block].priority, infos_[block].last_use, index_.Depth(block)};
}

// A free slot of the host tier for `victim`; -1 where it is worth less than all that is there.
int32_t CacheGroup::TakeSlot(int32_t victim) {
  if (host_free_.empty()) {
    const int32_t least = host_queue_.Least();
    if (least < 0) return -1;
    const bool alone = window() || index_.IsLeaf(victim);  // nothing on the host continues it
    if (alone && WorthOf(victim) < WorthOf(least)) return -1;
    Drop(least);
  }
  const int32_t slot = host_free_.back();
  host_free_.pop_back();
  return slot;
}

void CacheGroup::MakeFree(int32_t victim, std::vector<BlockCopy>* copies) {
  assert(victim >= 0);
  const int32_t slot = TakeSlot(victim);
  if (slot < 0) {
    Drop(victim);
    return;
  }
  const int32_t parent = index_.Parent(victim);
  copies->push_back(
      {number_, victim, slot - static_cast<int32_t>(pool_.total()), Tier::kDevice, Tier::kHost});
  ++moved_out_;
  Dequeue(victim);
  index_.Rename(victim, slot);
  infos_[slot] = infos_[victim];
  pool_.SetCached(victim, false);
  RecordMoved(index_.Hash(slot), Tier::kDevice, Tier::kHost);
  QueueIfEvictable(slot);
  if (parent >= 0) QueueIfEvictable(parent);
}

// A held block with the content of `slot`, which must be kept.
int32_t CacheGroup::BringIn(int32_t slot, bool reserve, std::vector<BlockCopy>* copies) {
  const int32_t block = TakeFree(reserve, infos_[slot].writer, copies);
  copies->push_back(
      {number_, slot - static_cast<int32_t>(pool_.total()), block, Tier::kHost, Tier::kDevice});
  ++moved_in_;
  ReplaceSlot(slot, block);
  return block;
}

// `block` has or will have the content of `slot`, and takes its place in the index.
void CacheGroup::ReplaceSlot(int32_t slot, int32_t block) {
  Dequeue(slot);
  const uint64_t writer = infos_[block].writer;
  infos_[block] = infos_[slot];
  infos_[block].writer = writer;
  infos_[block].kept = infos_[slot].kept = false;
  index_.Rename(slot, block);
  pool_.SetCached(block, true);
  host_free_.push_back(slot);
  RecordMoved(index_.Hash(block), Tier::kHost, Tier::kDevice);
}

// Holds a block; keeps a slot from being given up until it is brought in.
void CacheGroup::Keep(int32_t block, bool reserve) {
  if (OnHost(block)) {
    infos_[block].kept = true;
    Dequeue(block);
  } else {
    Hold(block, reserve);
  }
}

void CacheGroup::Hold(int32_t block, bool reserve) {
  Dequeue(block);
  pool_.AddReference(block, reserve);
}

// `index` is the place of the block in the sequence, which goes on naming it.
void CacheGroup::Release(const Sequence& sequence, int64_t index) {
  const int32_t block = sequence.blocks[index];
  BlockInfo& info = infos_[block];
  info.last_use = now_;
  const bool last = pool_.Release(block, sequence.reserve);
  if (info.shared_tail) {
    --debt_;
    info.shared_tail = pool_.references(block) > 1;
  }
  const int64_t first = index * spec_.block_tokens;
  if (const KvRetention* range =
          FindRetention(sequence.retention, first, first + spec_.block_tokens)) {
    info.priority = range->priority;
    info.expires = range->duration.count() > 0 ? milliseconds_ + range->duration.count() : 0;
  }
  if (last) QueueIfEvictable(block);
}

void CacheGroup::QueueIfEvictable(int32_t block) {
  const bool on_host = OnHost(block);
  const bool in_use =
      on_host ? infos_[block].kept : !pool_.is_cached(block) || pool_.references(block) > 0;
  if (in_use) return;
  if (!window() && !(on_host ? index_.IsLeaf(block) : index_.IsDeviceLeaf(block))) return;
  BlockInfo& info = infos_[block];
  if (info.expires > 0 && info.expires <= milliseconds_) {
    info.priority = kDefaultKvPriority;
    info.expires = 0;
  }
  (on_host ? host_queue_ : queue_).Put(block, WorthOf(block));
  if (info.expires > 0) expiring_.Put(block, {.last_use = static_cast<uint64_t>(info.expires)});
}

void CacheGroup::Dequeue(int32_t block) {
  (OnHost(block) ? host_queue_ : queue_).Remove(block);
  expiring_.Remove(block);
}

void CacheGroup::Expire() {
  for (int32_t block = expiring_.Least(); block >= 0 && infos_[block].expires <= milliseconds_;
       block = expiring_.Least()) {
    expiring_.Remove(block);
    QueueIfEvictable(block);
  }
}

// Takes `block`, and in a full group all that continues it, out of the index.
void CacheGroup::Drop(int32_t block) {
  const int32_t parent = index_.Parent(block);
  if (window()) {
    const uint64_t hash = index_.Hash(block);
    index_.Remove(block);
    OnDrop(block, hash);
  } else {
    index_.DropSubtree(block);
  }
  if (parent >= 0) QueueIfEvictable(parent);
}

void CacheGroup::OnDrop(int32_t block, uint64_t hash) {
  Dequeue(block);
  if (OnHost(block)) {
    host_free_.push_back(block);
  } else {
    pool_.SetCached(block, false);
  }
  RecordRemoved(hash);
}

void CacheGroup::RecordStored(std::string_view key, std::span<const int32_t> blocks) noexcept {
  // One event for each run of blocks that follow each other.
  for (size_t b = 0; b < blocks.size() && events_->on();) {
    try {
      KvEvent event{.group = number_, .parent = index_.ParentHash(blocks[b])};
      event.cache_salt = key;
      do {
        const std::span<const TokenId> tokens = index_.Tokens(blocks[b]);
        event.hashes.push_back(index_.Hash(blocks[b]));
        event.token_ids.insert(event.token_ids.end(), tokens.begin(), tokens.end());
        ++b;
      } while (b < blocks.size() && index_.ParentHash(blocks[b]) == event.hashes.back());
      events_->Record(std::move(event));
    } catch (const std::bad_alloc&) {
      events_->Lose();
      ++b;
    }
  }
}

void CacheGroup::RecordRemoved(uint64_t hash) noexcept {
  if (!events_->on()) return;
  try {
    events_->Record({.kind = KvEvent::Kind::kRemoved, .group = number_, .hashes = {hash}});
  } catch (const std::bad_alloc&) {
    events_->Lose();
  }
}

void CacheGroup::RecordMoved(uint64_t hash, Tier from, Tier to) noexcept {
  if (!events_->on()) return;
  try {
    KvEvent event{.kind = KvEvent::Kind::kMoved, .group = number_, .hashes = {hash}};
    event.from = from;
    event.to = to;
    events_->Record(std::move(event));
  } catch (const std::bad_alloc&) {
    events_->Lose();
  }
}

}  // namespace slipstream::kv
