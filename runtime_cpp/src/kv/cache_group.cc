#include "kv/cache_group.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace slipstream::kv {

CacheGroup::CacheGroup(int32_t number, const GroupSpec& spec, int64_t blocks, int64_t host_slots,
                       int32_t max_sequences, EventLog* events)
    : number_(number),
      spec_(spec),
      host_slots_(host_slots),
      pool_(blocks),
      queue_(blocks),
      host_queue_(blocks + host_slots),
      expiring_(blocks + host_slots),
      index_(spec.block_tokens, blocks, host_slots,
             [this](int32_t block, uint64_t hash) { OnDrop(block, hash); }),
      infos_(blocks + host_slots),
      tables_(max_sequences),
      events_(events) {
  host_free_.reserve(host_slots);
  for (int64_t slot = host_slots; slot-- > 0;)
    host_free_.push_back(static_cast<int32_t>(blocks + slot));
}

int64_t CacheGroup::Unreserved() const {
  const int64_t kept = window() ? pool_.secured_blocks() : pool_.reserving_references();
  return pool_.total() - pool_.pinned() - (need_ - kept) - debt_;
}

int32_t CacheGroup::FoundBlock(const RadixIndex::Found& found, int64_t index) const {
  return index < static_cast<int64_t>(found.blocks.size()) ? found.blocks[index] : found.tail_block;
}

int64_t CacheGroup::LongestHit(const RadixIndex::Found& found, int64_t most) const {
  int64_t hit = std::min(most, found.tokens(spec_.block_tokens));
  while (hit > 0) {
    // From the last block that the hit needs back to the first: where one is missing, only what
    // ends before it can be a hit.
    int64_t missing = -1;
    for (int64_t b = (hit - 1) / spec_.block_tokens; b >= FirstLive(hit) && missing < 0; --b) {
      if (FoundBlock(found, b) < 0) missing = b;
    }
    if (missing < 0) break;
    hit = missing * spec_.block_tokens;
  }
  return hit;
}

// What holding `block` takes from Unreserved(), promise of the holder included. Bringing one in
// costs what holding one that nobody holds does: either is of no use to others afterwards.
int64_t CacheGroup::TakeCost(int32_t block, bool reserve) const {
  if (OnHost(block)) return !reserve;
  const bool held = pool_.references(block) > 0;
  if (window()) return pool_.secured(block) ? 1 : !held && !reserve;
  return reserve ? -static_cast<int64_t>(held) : !held;
}

int64_t CacheGroup::OpenCost(const RadixIndex::Found& found, int64_t hit, int64_t need,
                             bool reserve) const {
  int64_t cost = reserve ? need : hit % spec_.block_tokens != 0;
  for (int64_t b = FirstLive(hit); b < hit / spec_.block_tokens; ++b)
    cost += TakeCost(found.blocks[b], reserve);
  return cost;
}

int64_t CacheGroup::HeldOfHit(const RadixIndex::Found& found, int64_t hit) const {
  int64_t held = 0;
  for (int64_t b = FirstLive(hit); b < hit / spec_.block_tokens; ++b) {
    const int32_t block = found.blocks[b];
    held += !OnHost(block) && pool_.references(block) > 0;
  }
  return held;
}

void CacheGroup::Open(int32_t slot, const SequenceTerms& terms, const RadixIndex::Found& found,
                      int64_t hit, int64_t need, std::vector<BlockCopy>* copies) {
  Sequence& sequence = tables_[slot];
  assert(sequence.blocks.empty());
  const int64_t whole = hit / spec_.block_tokens;
  copies->reserve(copies->size() + 2 * (BlocksToCover(spec_, hit) - FirstLive(hit)));
  sequence.blocks.resize(BlocksToCover(spec_, hit), -1);
  // Nothing fails from here on.
  sequence.reserve = terms.reserve;
  sequence.retention = terms.retention;
  sequence.need = terms.reserve ? need : 0;
  need_ += sequence.need;
  sequence.first_live = std::min<int64_t>(FirstLive(hit), sequence.blocks.size());
  sequence.committed = whole;
  sequence.held = static_cast<int64_t>(sequence.blocks.size()) - sequence.first_live;
  // First keep all of it, so that nothing is evicted while the rest is brought in.
  for (int64_t b = sequence.first_live; b < whole; ++b) Keep(found.blocks[b], terms.reserve);
  if (hit % spec_.block_tokens != 0) {
    const int32_t source = FoundBlock(found, whole);
    sequence.blocks[whole] = CopyOf(source, terms, copies);
  }
  for (int64_t b = sequence.first_live; b < whole; ++b) {
    const int32_t block = found.blocks[b];
    sequence.blocks[b] = OnHost(block) ? BringIn(block, terms.reserve, copies) : block;
  }
}

// A held block with the content of the cached `source`.
int32_t CacheGroup::CopyOf(int32_t source, const SequenceTerms& terms,
                           std::vector<BlockCopy>* copies) {
  infos_[source].last_use = now_;
  if (OnHost(source)) {
    Keep(source, terms.reserve);
    const int32_t target = TakeFree(terms.reserve, terms.writer, copies);
    copies->push_back({number_, source - static_cast<int32_t>(pool_.total()), target, Tier::kHost,
                       Tier::kDevice});
    ++moved_in_;
    infos_[source].kept = false;
    QueueIfEvictable(source);
    return target;
  }
  if (queue_.Contains(source)) QueueIfEvictable(source);
  const int32_t target = TakeFree(terms.reserve, terms.writer, copies);
  // Evicting may have given the source itself: then its content is in place already.
  if (target != source) copies->push_back({number_, source, target});
  return target;
}

void CacheGroup::OpenEmpty(int32_t slot, const SequenceTerms& terms, int64_t tokens, int64_t need,
                           std::vector<BlockCopy>* copies) {
  Sequence& sequence = tables_[slot];
  assert(sequence.blocks.empty());
  copies->reserve(copies->size() + BlocksToCover(spec_, tokens));
  sequence.blocks.resize(BlocksToCover(spec_, tokens), -1);
  sequence.reserve = terms.reserve;
  sequence.retention = terms.retention;
  sequence.need = terms.reserve ? need : 0;
  need_ += sequence.need;
  sequence.first_live = std::min<int64_t>(FirstLive(tokens), sequence.blocks.size());
  for (size_t b = sequence.first_live; b < sequence.blocks.size(); ++b) {
    sequence.blocks[b] = TakeFree(terms.reserve, terms.writer, copies);
    ++sequence.held;
  }
}

bool CacheGroup::MustCopy(int32_t block) const {
  if (pool_.references(block) > 1) return true;
  // One that only the index shares is copied too, unless that would take a promised block.
  return pool_.is_cached(block) && Unreserved() > 0;
}

int64_t CacheGroup::ExtendLacks(int32_t slot, int64_t first, int64_t count) const {
  const Sequence& sequence = tables_[slot];
  const int64_t size = static_cast<int64_t>(sequence.blocks.size());
  const int64_t live = std::min(FirstLive(first), size);
  const int64_t fresh = std::max<int64_t>(0, BlocksToCover(spec_, first + count) - size);
  int64_t held = sequence.held + fresh;
  int64_t available = Unreserved();
  for (int64_t b = sequence.first_live; b < live; ++b) {
    --held;
    if (pool_.references(sequence.blocks[b]) == 1) ++available;
  }
  int64_t copied = 0;  // copies that no debt pays for
  for (int64_t b = std::max(live, first / spec_.block_tokens); b < size; ++b) {
    const int32_t block = sequence.blocks[b];
    copied += pool_.references(block) > 1 && !infos_[block].shared_tail;
  }
  if (!sequence.reserve) return std::max<int64_t>(0, fresh + copied - available);
  const int64_t outgrown = std::max<int64_t>(0, held - sequence.need);
  return window() ? outgrown : std::max(outgrown, copied - available);
}

size_t CacheGroup::ReserveExtend(int32_t slot, int64_t first, int64_t count) {
  std::vector<int32_t>& blocks = tables_[slot].blocks;
  const size_t cover = BlocksToCover(spec_, first + count);
  if (blocks.capacity() < cover) blocks.reserve(std::max(cover, 2 * blocks.capacity()));
  // For each that is copied or taken: the copy, and what moves out for it.
  return 2 * (cover - std::min<size_t>(cover, first / spec_.block_tokens));
}

void CacheGroup::Extend(int32_t slot, uint64_t writer, int64_t first, int64_t count,
                        std::vector<BlockCopy>* copies) noexcept {
  Sequence& sequence = tables_[slot];
  const int64_t live = std::min<int64_t>(FirstLive(first), sequence.blocks.size());
  for (; sequence.first_live < live; ++sequence.first_live) {
    Release(sequence, sequence.first_live);
    sequence.blocks[sequence.first_live] = -1;
    --sequence.held;
  }
  for (size_t b = std::max(live, first / spec_.block_tokens); b < sequence.blocks.size(); ++b) {
    int32_t& block = sequence.blocks[b];
    sequence.committed = std::min<int64_t>(sequence.committed, b);
    if (MustCopy(block)) {
      const int32_t source = block;
      const int32_t target = TakeFree(sequence.reserve, writer, copies);
      copies->push_back({number_, source, target});
      Release(sequence, static_cast<int64_t>(b));
      block = target;
    } else if (pool_.is_cached(block)) {
      index_.DropSubtree(block);
    }
  }
  const int64_t cover = BlocksToCover(spec_, first + count);
  while (static_cast<int64_t>(sequence.blocks.size()) < cover) {
    sequence.blocks.push_back(TakeFree(sequence.reserve, writer, copies));
    ++sequence.held;
  }
}

void CacheGroup::Commit(int32_t slot, const SequenceTerms& terms, std::span<const TokenId> tokens,
                        int64_t computed) {
  Sequence& sequence = tables_[slot];
  const int64_t whole = computed / spec_.block_tokens;
  if (whole <= sequence.committed) return;
  const int64_t first = sequence.committed;
  stored_.clear();
  if (events_->on()) stored_.reserve(whole - first);
  index_.Store(terms.key, tokens.first(whole * spec_.block_tokens), first,
               std::span(sequence.blocks).first(whole), &kept_);
  sequence.committed = whole;
  for (int64_t b = first; b < whole; ++b) {
    int32_t& mine = sequence.blocks[b];
    const int32_t kept = kept_[b - first];
    if (mine < 0) continue;
    if (kept == mine) {
      if (events_->on() && !pool_.is_cached(mine)) stored_.push_back(mine);
      pool_.SetCached(mine, true);
      continue;
    }
    if (OnHost(kept)) {
      ReplaceSlot(kept, mine);
      continue;
    }
    // Held by one that reserves, a window block may cost what is not there: keep the double then.
    if (window() && pool_.secured(kept) && Unreserved() < 1) continue;
    Hold(kept, sequence.reserve);
    Release(sequence, b);
    mine = kept;
  }
  RecordStored(terms.key, stored_);
}

int64_t CacheGroup::AdoptCost(int32_t slot, const RadixIndex::Found& found, int64_t hit) const {
  const Sequence& sequence = tables_[slot];
  int64_t cost = 0, held = 0;
  for (int64_t b = FirstLive(hit); b < hit / spec_.block_tokens; ++b) {
    ++held;
    const bool mine =
        b < static_cast<int64_t>(sequence.blocks.size()) && sequence.blocks[b] == found.blocks[b];
    if (!mine) cost += std::max<int64_t>(0, TakeCost(found.blocks[b], sequence.reserve));
  }
  return sequence.reserve && held > sequence.need ? pool_.total() + 1 : cost;
}

size_t CacheGroup::ReserveAdopt(int32_t slot, int64_t hit) {
  const int64_t whole = hit / spec_.block_tokens;
  tables_[slot].blocks.reserve(whole);
  return 2 * (whole - std::min(FirstLive(hit), whole));
}

void CacheGroup::Adopt(int32_t slot, const RadixIndex::Found& found, int64_t hit,
                       std::vector<BlockCopy>* copies) noexcept {
  Sequence& sequence = tables_[slot];
  const int64_t whole = hit / spec_.block_tokens;
  const size_t before = sequence.blocks.size();
  sequence.blocks.resize(std::max<size_t>(before, whole), -1);
  // First keep, then give back, then bring in: so that nothing of it is evicted between, and the
  // sequence never holds more than it was promised.
  const int64_t live = std::max(sequence.first_live, std::min(FirstLive(hit), whole));
  for (int64_t b = live; b < whole; ++b) {
    if (sequence.blocks[b] != found.blocks[b]) Keep(found.blocks[b], sequence.reserve);
  }
  for (int64_t b = sequence.first_live; b < static_cast<int64_t>(sequence.blocks.size()); ++b) {
    int32_t& block = sequence.blocks[b];
    const int32_t next = b >= live && b < whole ? found.blocks[b] : -1;
    if (block == next) continue;
    if (block >= 0) Release(sequence, b);
    sequence.held += (next >= 0) - (block >= 0);
    block = next;
  }
  sequence.blocks.resize(whole);
  for (int64_t b = live; b < whole; ++b) {
    int32_t& block = sequence.blocks[b];
    if (OnHost(block)) block = BringIn(block, sequence.reserve, copies);
  }
  sequence.first_live = live;
  sequence.committed = whole;
}

int64_t CacheGroup::ForkCost(int32_t parent, int64_t computed, int64_t need, bool reserve) const {
  int64_t cost = reserve ? need : 0;
  if (!window() && computed % spec_.block_tokens != 0) ++cost;
  for (int64_t b = tables_[parent].first_live; b < BlocksToCover(spec_, computed); ++b)
    cost += TakeCost(tables_[parent].blocks[b], reserve);
  return cost;
}

void CacheGroup::Fork(int32_t parent, int32_t child, int64_t computed, int64_t need,
                      const SequenceTerms& terms) {
  const Sequence& from = tables_[parent];
  Sequence& to = tables_[child];
  assert(to.blocks.empty());
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + BlocksToCover(spec_, computed));
  // Nothing fails from here on.
  to.reserve = terms.reserve;
  to.retention = terms.retention;
  to.need = terms.reserve ? need : 0;
  need_ += to.need;
  to.first_live = std::min<int64_t>(from.first_live, to.blocks.size());
  to.committed = std::min(from.committed, computed / spec_.block_tokens);
  for (size_t b = to.first_live; b < to.blocks.size(); ++b) {
    Hold(to.blocks[b], terms.reserve);
    ++to.held;
  }
  if (window() || computed % spec_.block_tokens == 0) return;
  infos_[to.blocks.back()].shared_tail = true;
  ++debt_;
}

void CacheGroup::CommitTail(int32_t slot, const SequenceTerms& terms,
                            std::span<const TokenId> tokens, int64_t computed) {
  const Sequence& sequence = tables_[slot];
  const int64_t last = computed / spec_.block_tokens;
  if (computed % spec_.block_tokens == 0 || sequence.committed < last) return;
  const int32_t block =
      last < static_cast<int64_t>(sequence.blocks.size()) ? sequence.blocks[last] : -1;
  if (block < 0 || pool_.references(block) > 1 || pool_.is_cached(block)) return;
  if (!index_.StorePartial(terms.key, tokens.first(computed), block)) return;
  pool_.SetCached(block, true);
  RecordStored(terms.key, {&block, 1});
}

void CacheGroup::Forget(int32_t slot, uint64_t writer, const RadixIndex::Found& found) noexcept {
  const std::vector<int32_t>& mine = tables_[slot].blocks;
  for (size_t b = found.blocks.size(); b-- > 0;) {
    const int32_t block = found.blocks[b];
    if (block < 0 || infos_[block].writer != writer) continue;
    if (!OnHost(block)) {
      const bool held = b < mine.size() && mine[b] == block;
      if (!pool_.is_cached(block) || pool_.references(block) > static_cast<int32_t>(held)) continue;
    }
    Drop(block);
  }
}

void CacheGroup::Close(int32_t slot) noexcept {
  Sequence& sequence = tables_[slot];
  // Last block first, so that the next sequence gets them back in the same order.
  for (size_t b = sequence.blocks.size(); b-- > 0;) {
    if (sequence.blocks[b] >= 0) Release(sequence, static_cast<int64_t>(b));
  }
  need_ -= sequence.need;
  sequence = Sequence();
}

}  // namespace slipstream::kv
