// The part of Batcher by which one prompt goes on as several answers.
#include <new>
#include <utility>

#include "executor/batcher.h"

namespace slipstream::executor {

int64_t Batcher::Branch(std::span<const StepEntry> entries) noexcept {
  int64_t drawn = 0;
  for (const StepEntry& entry : entries) {
    RequestState* leader = entry.request;
    Requests& siblings = leader->siblings;
    if (!entry.samples || siblings.empty()) continue;
    const RequestState& next = *siblings.front();
    const bool drew = static_cast<int32_t>(next.tokens().size()) > next.prompt_tokens();
    if (!drew && !next.finished()) continue;  // what ended the leader ends them
    while (!siblings.empty()) {
      const auto first = siblings.begin();
      RequestState* sibling = first->get();
      sibling->place.started_us = leader->place.started_us;
      sibling->place.first_token_us = leader->place.first_token_us;
      sibling->place.last_token_us = leader->place.last_token_us;
      sibling->place.cached_tokens = leader->place.cached_tokens;
      sibling->place.rank.level = leader->place.rank.level;
      drawn += sibling->tokens().size() > static_cast<size_t>(sibling->prompt_tokens());
      bool runs = sibling->finished();
      try {
        runs = runs || Fork(*leader, sibling);
      } catch (const std::bad_alloc&) {  // it waits until there is memory
      }
      if (runs) {
        Run(&siblings, first);
      } else {
        preempted_.splice(preempted_.end(), siblings, first);
      }
    }
  }
  return drawn;
}

bool Batcher::Fork(const RequestState& parent, RequestState* child) {
  if (parent.place.slot < 0 || static_cast<int32_t>(running_.size()) >= sched::MaxRunning(limits_))
    return false;
  const bool reserve = policy_.capacity == CapacityPolicy::kGuaranteedNoEvict;
  // Without promises, as where a request starts: one more block for each sequence that runs.
  for (int32_t g = 0; !reserve && g < kv_->num_groups(); ++g) {
    if (kv_->free_blocks(g) + kv_->evictable_blocks(g) <= static_cast<int64_t>(running_.size()))
      return false;
  }
  const int32_t slot = free_slots_.back();
  if (!kv_->Fork(parent.place.slot, slot, child->total_limit(), reserve).ok()) return false;
  free_slots_.pop_back();
  child->place.slot = slot;
  child->SetComputed(parent.computed());
  return true;
}

}  // namespace slipstream::executor
