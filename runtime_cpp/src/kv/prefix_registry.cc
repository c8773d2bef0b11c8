#include "kv/prefix_registry.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kv/chain_hash.h"

namespace slipstream::kv {

PrefixRegistry::PrefixRegistry(int32_t max_sequences, int64_t block_tokens)
    : unit_(block_tokens),
      slots_(max_sequences),
      buckets_(std::bit_ceil(2 * static_cast<size_t>(max_sequences) + 1)) {}

void PrefixRegistry::Open(int32_t slot, std::string_view key, std::span<const TokenId> tokens,
                          int64_t computed, bool produces) {
  Slot fresh;
  fresh.key = key;
  fresh.tokens.assign(tokens.begin(), tokens.end());
  fresh.computed = computed;
  fresh.opened = ++opened_;
  fresh.chain = KeyHash(key);
  fresh.produces = produces;
  slots_[slot] = std::move(fresh);
  File(slot);
}

void PrefixRegistry::Update(int32_t slot, std::span<const TokenId> tokens, int64_t computed) {
  Slot& self = slots_[slot];
  if (tokens.size() > self.tokens.size())
    self.tokens.insert(self.tokens.end(), tokens.begin() + self.tokens.size(), tokens.end());
  self.computed = computed;
  const int64_t units = computed / unit_ + 1;
  if (units * unit_ > static_cast<int64_t>(self.tokens.size())) {
    Unfile(slot);
  } else if (units != self.filed_units) {
    Unfile(slot);
    File(slot);
  } else {
    Promote(slot);
  }
}

void PrefixRegistry::SetProduces(int32_t slot, bool produces) {
  slots_[slot].produces = produces;
  if (slots_[slot].filed_units > 0) BucketOf(slots_[slot].filed_hash).known = false;
}

void PrefixRegistry::Promote(int32_t slot) const {
  const Slot& self = slots_[slot];
  Bucket& bucket = BucketOf(self.filed_hash);
  if (!bucket.known || bucket.hash != self.filed_hash || !self.produces) return;
  if (bucket.farthest < 0 || Ahead(self, slots_[bucket.farthest])) bucket.farthest = slot;
}

void PrefixRegistry::File(int32_t slot) {
  Slot& self = slots_[slot];
  const int64_t before = self.computed / unit_;
  if ((before + 1) * unit_ > static_cast<int64_t>(self.tokens.size())) return;
  const std::span<const TokenId> tokens(self.tokens);
  for (; self.chained < before; ++self.chained)
    self.chain = ChainHash(self.chain, tokens.subspan(self.chained * unit_, unit_));
  self.filed_hash = ChainHash(self.chain, tokens.subspan(before * unit_, unit_));
  self.filed_units = before + 1;
  Bucket& bucket = BucketOf(self.filed_hash);
  self.previous = -1;
  self.next = bucket.head;
  if (bucket.head >= 0) slots_[bucket.head].previous = slot;
  bucket.head = slot;
  Promote(slot);
}

void PrefixRegistry::Unfile(int32_t slot) {
  Slot& self = slots_[slot];
  if (self.filed_units == 0) return;
  Bucket& bucket = BucketOf(self.filed_hash);
  (self.previous >= 0 ? slots_[self.previous].next : bucket.head) = self.next;
  if (self.next >= 0) slots_[self.next].previous = self.previous;
  if (bucket.farthest == slot) bucket.known = false;
  self.filed_units = 0;
}

void PrefixRegistry::Close(int32_t slot) noexcept {
  Unfile(slot);
  slots_[slot] = Slot();
}

bool PrefixRegistry::Agree(const Slot& a, const Slot& b) const {
  const int64_t through = a.filed_units * unit_;
  int64_t from = 0;
  if (a.agreed_with == b.opened) {
    from = std::min(a.agreed, through);
  } else if (a.key != b.key) {
    return false;
  }
  if (!std::equal(a.tokens.begin() + from, a.tokens.begin() + through, b.tokens.begin() + from))
    return false;
  a.agreed_with = b.opened;
  a.agreed = through;
  return true;
}

int32_t PrefixRegistry::Producer(int32_t slot) const {
  const Slot& self = slots_[slot];
  if (self.filed_units == 0) return -1;
  Bucket& bucket = BucketOf(self.filed_hash);
  if (!bucket.known || bucket.hash != self.filed_hash) {
    bucket = {.head = bucket.head, .known = true, .hash = self.filed_hash};
    for (int32_t other = bucket.head; other >= 0; other = slots_[other].next) {
      if (slots_[other].filed_hash == self.filed_hash) Promote(other);
    }
  }
  const int32_t best = bucket.farthest;
  if (best < 0 || !Ahead(slots_[best], self)) return -1;
  return slots_[best].filed_units == self.filed_units && Agree(self, slots_[best]) ? best : -1;
}

}  // namespace slipstream::kv
