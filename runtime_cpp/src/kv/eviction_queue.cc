#include "kv/eviction_queue.h"

namespace slipstream::kv {

EvictionQueue::EvictionQueue(int64_t capacity) : place_(capacity, -1), worth_(capacity) {
  heap_.reserve(capacity);
}

bool EvictionQueue::Less(int32_t a, int32_t b) const {
  if (worth_[a] < worth_[b]) return true;
  if (worth_[b] < worth_[a]) return false;
  return a < b;
}

void EvictionQueue::Place(int32_t block, int32_t at) {
  heap_[at] = block;
  place_[block] = at;
}

void EvictionQueue::Up(int32_t at) {
  const int32_t block = heap_[at];
  while (at > 0 && Less(block, heap_[(at - 1) / 2])) {
    Place(heap_[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  Place(block, at);
}

void EvictionQueue::Down(int32_t at) {
  const int32_t block = heap_[at];
  const int32_t size = static_cast<int32_t>(heap_.size());
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && Less(heap_[child + 1], heap_[child])) ++child;
    if (!Less(heap_[child], block)) break;
    Place(heap_[child], at);
    at = child;
  }
  Place(block, at);
}

void EvictionQueue::Put(int32_t block, const Worth& worth) {
  Remove(block);
  worth_[block] = worth;
  heap_.push_back(block);
  Up(static_cast<int32_t>(heap_.size()) - 1);
}

void EvictionQueue::Remove(int32_t block) {
  const int32_t at = place_[block];
  if (at < 0) return;
  place_[block] = -1;
  const int32_t last = heap_.back();
  heap_.pop_back();
  if (last == block) return;
  Place(last, at);
  Up(at);
  Down(place_[last]);
}

}  // namespace slipstream::kv
