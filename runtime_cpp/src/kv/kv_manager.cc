#include "kv/kv_manager.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <new>
#include <numeric>
#include <string>
#include <utility>

namespace slipstream::kv {
namespace {

int64_t CommonUnit(std::span<const GroupSpec> groups) {
  int64_t unit = 1;
  for (const GroupSpec& group : groups) unit = std::lcm(unit, int64_t{group.block_tokens});
  return unit;
}

Status Lacks(size_t group, int64_t has, int64_t needs, const std::string& fix) {
  return Status(StatusCode::kResourceExhausted,
                "KV cache group " + std::to_string(group) + " has " + std::to_string(has) +
                    " unreserved blocks; the sequence needs " + std::to_string(needs) + ". " + fix);
}

}  // namespace

KvManager::KvManager(std::vector<GroupSpec> groups, std::span<const int64_t> blocks,
                     int32_t max_sequences, int32_t max_chunk, const KvOptions& options)
    : max_chunk_(max_chunk),
      options_(options),
      events_(options.max_events),
      unit_(CommonUnit(groups)),
      registry_(max_sequences, unit_),
      sequences_(max_sequences),
      found_(groups.size()) {
  assert(groups.size() == blocks.size());
  assert(options.host_slots.empty() || options.host_slots.size() == groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t slots = options.host_slots.empty() ? 0 : options.host_slots[g];
    groups_.push_back(std::make_unique<CacheGroup>(static_cast<int32_t>(g), groups[g], blocks[g],
                                                   slots, max_sequences, &events_));
  }
}

std::vector<int64_t> KvManager::Need(int64_t total_tokens) const {
  std::vector<int64_t> need;
  need.reserve(groups_.size());
  for (const auto& group : groups_)
    need.push_back(PeakBlocks(group->spec(), total_tokens, max_chunk_));
  return need;
}

std::vector<int64_t> KvManager::Unreserved() const {
  std::vector<int64_t> blocks;
  blocks.reserve(groups_.size());
  for (const auto& group : groups_) blocks.push_back(group->Unreserved());
  return blocks;
}

SequenceTerms KvManager::Terms(int32_t slot) const {
  const Sequence& sequence = sequences_[slot];
  return {registry_.key(slot), sequence.writer, sequence.reserve, sequence.stores,
          sequence.retention};
}

int64_t KvManager::LongestHit(int64_t most) const {
  // A length that one group shortens is looked at again by the others.
  for (int64_t hit = most;; most = hit) {
    for (size_t g = 0; g < groups_.size(); ++g) hit = groups_[g]->LongestHit(found_[g], hit);
    if (hit == most) return hit;
  }
}

bool KvManager::HasRoom(const OpenRequest& request, int64_t tokens, int64_t spare) const {
  const bool reads = options_.enable_cache && request.read_cache;
  const int64_t hit = reads ? Match(request.cache_key, request.tokens) : 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const CacheGroup& group = *groups_[g];
    const int64_t shared = hit > 0 ? group.HeldOfHit(found_[g], hit) : 0;
    const int64_t fresh = PeakBlocks(group.spec(), tokens, max_chunk_) - shared;
    if (fresh + spare > group.pool().free() + group.pool().evictable()) return false;
  }
  return true;
}

int64_t KvManager::Match(std::string_view cache_key, std::span<const TokenId> tokens) const {
  if (!options_.enable_cache || tokens.empty()) return 0;
  const auto most = static_cast<int64_t>(tokens.size()) - 1;
  for (size_t g = 0; g < groups_.size(); ++g)
    groups_[g]->Find(cache_key, tokens.first(most), &found_[g]);
  return LongestHit(most);
}

Result<int64_t> KvManager::Open(int32_t slot, const OpenRequest& request) {
  assert(!is_open(slot));
  const std::vector<int64_t> need = Need(request.total_tokens);
  const bool reads = options_.enable_cache && request.read_cache;
  const bool stores = options_.enable_cache && request.write_cache;
  Tick();
  std::vector<KvRetention> retention = request.retention;
  int64_t hit = reads ? Match(request.cache_key, request.tokens) : 0;
  const SequenceTerms terms{request.cache_key, ++writers_, request.reserve, stores, retention};
  Status status = TryOpen(slot, terms, need, hit);
  if (status.code() == StatusCode::kResourceExhausted && hit % unit_ != 0) {
    // Without the block that the copy takes.
    hit = LongestHit(hit / unit_ * unit_);
    status = TryOpen(slot, terms, need, hit);
  }
  if (status.code() == StatusCode::kResourceExhausted && hit > 0 && request.reserve) {
    // Window blocks that others hold can cost more than blocks of its own.
    hit = 0;
    status = TryOpen(slot, terms, need, hit);
  }
  if (!status.ok()) return status;
  // Moving keeps the address that the groups have of it.
  sequences_[slot] = {terms.writer, request.reserve, reads, stores, std::move(retention)};
  try {
    registry_.Open(slot, request.cache_key,
                   options_.enable_cache ? request.tokens : std::span<const TokenId>(), hit,
                   stores);
  } catch (const std::bad_alloc&) {
    CloseBlocks(slot);
    throw;
  }
  return hit;
}

Status KvManager::OpenEmpty(int32_t slot, const OpenRequest& request) {
  assert(!is_open(slot));
  const auto size = static_cast<int64_t>(request.tokens.size());
  const std::vector<int64_t> need = Need(request.total_tokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupSpec& spec = groups_[g]->spec();
    const int64_t available = groups_[g]->Unreserved();
    const int64_t cost =
        request.reserve ? need[g] : BlocksToCover(spec, size) - FirstLiveBlock(spec, size);
    if (cost > available) return Lacks(g, available, cost, "Wait until other sequences end.");
  }
  Tick();
  const bool caches = options_.enable_cache;
  sequences_[slot] = {
      ++writers_, request.reserve, caches && request.read_cache, caches && request.write_cache, {}};
  try {
    sequences_[slot].retention = request.retention;
    registry_.Open(slot, request.cache_key, caches ? request.tokens : std::span<const TokenId>(), 0,
                   false);
    for (size_t g = 0; g < groups_.size(); ++g)
      groups_[g]->OpenEmpty(slot, Terms(slot), size, need[g], &copies_);
  } catch (const std::bad_alloc&) {
    CloseBlocks(slot);
    registry_.Close(slot);
    throw;
  }
  registry_.SetProduces(slot, sequences_[slot].stores);
  return Status::Ok();
}

Status KvManager::TryOpen(int32_t slot, const SequenceTerms& terms, std::span<const int64_t> need,
                          int64_t hit) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t available = groups_[g]->Unreserved();
    const int64_t cost = groups_[g]->OpenCost(found_[g], hit, need[g], terms.reserve);
    if (cost > available) return Lacks(g, available, cost, "Wait until other sequences end.");
  }
  try {
    for (size_t g = 0; g < groups_.size(); ++g)
      groups_[g]->Open(slot, terms, found_[g], hit, need[g], &copies_);
  } catch (const std::bad_alloc&) {
    CloseBlocks(slot);
    throw;
  }
  return Status::Ok();
}

Status KvManager::Extend(int32_t slot, int64_t first, int64_t count) {
  assert(is_open(slot));
  const Sequence& sequence = sequences_[slot];
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t lacks = groups_[g]->ExtendLacks(slot, first, count);
    if (lacks == 0) continue;
    if (!sequence.reserve) {
      return Lacks(g, groups_[g]->Unreserved(), groups_[g]->Unreserved() + lacks,
                   "Preempt another sequence or wait until one ends.");
    }
    return Status(StatusCode::kInternal, "A sequence outgrew its reservation in KV cache group " +
                                             std::to_string(g) + " by " + std::to_string(lacks) +
                                             " blocks at position " + std::to_string(first) +
                                             ". Please report this.");
  }
  size_t orders = 0;
  for (const auto& group : groups_) orders += group->ReserveExtend(slot, first, count);
  ReserveCopies(orders);
  Tick();
  for (const auto& group : groups_) group->Extend(slot, sequence.writer, first, count, &copies_);
  return Status::Ok();
}

void KvManager::ReserveCopies(size_t more) {
  const size_t needed = copies_.size() + more;
  if (copies_.capacity() < needed) copies_.reserve(std::max(needed, 2 * copies_.capacity()));
}

std::vector<BlockCopy> KvManager::TakeCopies() { return std::exchange(copies_, {}); }

void KvManager::Commit(int32_t slot, std::span<const TokenId> tokens, int64_t computed) noexcept {
  assert(is_open(slot) && computed <= static_cast<int64_t>(tokens.size()));
  try {
    if (sequences_[slot].stores) {
      for (const auto& group : groups_) group->Commit(slot, Terms(slot), tokens, computed);
    }
    registry_.Update(slot, options_.enable_cache ? tokens : std::span<const TokenId>(), computed);
  } catch (const std::bad_alloc&) {
    StopStoring(slot);
  }
}

void KvManager::StopStoring(int32_t slot) noexcept {
  sequences_[slot].stores = false;
  registry_.SetProduces(slot, false);
}

int64_t KvManager::Adopt(int32_t slot, std::span<const TokenId> tokens, int64_t computed) {
  assert(is_open(slot));
  if (!sequences_[slot].reads || tokens.empty()) return computed;
  const auto most = (static_cast<int64_t>(tokens.size()) - 1) / unit_ * unit_;
  if (most <= computed) return computed;
  for (size_t g = 0; g < groups_.size(); ++g)
    groups_[g]->Find(registry_.key(slot), tokens.first(most), &found_[g]);
  int64_t hit = LongestHit(most);
  while (hit % unit_ != 0) hit = LongestHit(hit / unit_ * unit_);
  if (hit <= computed) return computed;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g]->AdoptCost(slot, found_[g], hit) > groups_[g]->Unreserved()) return computed;
  }
  size_t orders = 0;
  for (const auto& group : groups_) orders += group->ReserveAdopt(slot, hit);
  ReserveCopies(orders);
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g]->Adopt(slot, found_[g], hit, &copies_);
  try {
    registry_.Update(slot, tokens, hit);
  } catch (const std::bad_alloc&) {
    StopStoring(slot);
  }
  return hit;
}

int32_t KvManager::Producer(int32_t slot) const {
  assert(is_open(slot));
  return sequences_[slot].reads ? registry_.Producer(slot) : -1;
}

Status KvManager::Fork(int32_t parent, int32_t child, int64_t total_tokens, bool reserve) {
  assert(is_open(parent) && !is_open(child));
  const std::vector<int64_t> need = Need(total_tokens);
  const int64_t computed = registry_.computed(parent);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t available = groups_[g]->Unreserved();
    const int64_t cost = groups_[g]->ForkCost(parent, computed, need[g], reserve);
    if (cost > available) return Lacks(g, available, cost, "Wait until other sequences end.");
  }
  sequences_[child] = sequences_[parent];
  sequences_[child].writer = ++writers_;
  sequences_[child].reserve = reserve;
  const SequenceTerms terms = Terms(child);
  try {
    for (size_t g = 0; g < groups_.size(); ++g)
      groups_[g]->Fork(parent, child, computed, need[g], terms);
    // Beyond what is computed, the child goes its own way.
    const std::span<const TokenId> known = registry_.tokens(parent);
    registry_.Open(child, registry_.key(parent),
                   known.first(std::min<size_t>(known.size(), computed)), computed,
                   sequences_[child].stores);
  } catch (const std::bad_alloc&) {
    CloseBlocks(child);
    throw;
  }
  return Status::Ok();
}

void KvManager::Close(int32_t slot, std::span<const TokenId> tokens, int64_t computed,
                      bool keep) noexcept {
  assert(is_open(slot) && computed <= static_cast<int64_t>(tokens.size()));
  const SequenceTerms terms = Terms(slot);
  if (options_.enable_cache && keep && terms.stores) {
    Commit(slot, tokens, computed);
    try {
      for (const auto& group : groups_) group->CommitTail(slot, terms, tokens, computed);
    } catch (const std::bad_alloc&) {  // it is not kept then
    }
  } else if (options_.enable_cache && !keep) {
    try {
      for (size_t g = 0; g < groups_.size(); ++g) {
        groups_[g]->Find(terms.key, tokens.first(computed), &found_[g]);
        groups_[g]->Forget(slot, terms.writer, found_[g]);
      }
    } catch (const std::bad_alloc&) {
      DropKey(terms.key);  // rather too much than what may be wrong
    }
  }
  CloseBlocks(slot);
  registry_.Close(slot);
}

void KvManager::CloseBlocks(int32_t slot) noexcept {
  Tick();
  for (const auto& group : groups_) group->Close(slot);
  sequences_[slot] = Sequence();
}

void KvManager::Tick() {
  const int64_t now = options_.clock ? options_.clock()
                                     : std::chrono::duration_cast<std::chrono::milliseconds>(
                                           std::chrono::steady_clock::now().time_since_epoch())
                                           .count();
  for (const auto& group : groups_) group->Tick(now);
}

void KvManager::DropKey(std::string_view prefix) noexcept {
  for (const auto& group : groups_) group->DropKeys(prefix);
  for (size_t slot = 0; slot < sequences_.size(); ++slot) {
    const int32_t s = static_cast<int32_t>(slot);
    if (is_open(s) && registry_.key(s).starts_with(prefix)) StopStoring(s);
  }
}

template <typename Gauge>
int64_t KvManager::Sum(Gauge gauge) const {
  int64_t sum = 0;
  for (const auto& group : groups_) sum += gauge(*group);
  return sum;
}

int64_t KvManager::total_blocks() const {
  return Sum([](const CacheGroup& group) { return group.pool().total(); });
}
int64_t KvManager::free_blocks() const {
  return Sum([](const CacheGroup& group) { return group.pool().free(); });
}
int64_t KvManager::evictable_blocks() const {
  return Sum([](const CacheGroup& group) { return group.pool().evictable(); });
}
int64_t KvManager::pinned_blocks() const {
  return Sum([](const CacheGroup& group) { return group.pool().pinned(); });
}
int64_t KvManager::cached_blocks() const {
  return Sum([](const CacheGroup& group) { return group.pool().cached(); });
}
int64_t KvManager::host_total_slots() const {
  return Sum([](const CacheGroup& group) { return group.host_slots(); });
}
int64_t KvManager::host_used_slots() const {
  return Sum([](const CacheGroup& group) { return group.host_used(); });
}
int64_t KvManager::moved_out() const {
  return Sum([](const CacheGroup& group) { return group.moved_out(); });
}
int64_t KvManager::moved_in() const {
  return Sum([](const CacheGroup& group) { return group.moved_in(); });
}

}  // namespace slipstream::kv
