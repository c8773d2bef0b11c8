#include "executor/batcher.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace slipstream::executor {
namespace {

// Log-probabilities of the prompt come from its rows, which the cache would spare.
bool ReadsCache(const RequestState& request) {
  return request.place.read_cache && !request.scores_prompt();
}

}  // namespace

Batcher::Batcher(std::unique_ptr<kv::KvManager> kv, const sched::Limits& limits,
                 const BatchPolicy& policy)
    : kv_(std::move(kv)), limits_(limits), policy_(policy) {
  for (int32_t slot = limits_.max_batch_size - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  by_index_.reserve(limits_.max_batch_size);
  index_of_slot_.resize(limits_.max_batch_size);
}

void Batcher::Admit(RequestQueue* queue, int64_t now_us, Admission admission) {
  queue->Age(now_us);
  while (!queue->empty()) {
    const auto first = queue->begin();
    RequestState* request = first->get();
    if (Start(request, now_us)) {
      queue->Take(first, &running_);
      Run(&running_, std::prev(running_.end()));
      continue;
    }
    if (request->finished()) {  // with the error that Start met
      queue->Take(first, &running_);
      continue;
    }
    // Strictly in order: a request that does not fit holds up those behind it, so that a large one
    // is never starved by small ones.
    if (admission == Admission::kIfRoom) return;
    const auto victim = VictimOf(*request);
    if (victim == running_.end()) return;
    Preempt(victim);
    queue->Insert(&preempted_, preempted_.begin(), now_us);
  }
}

void Batcher::Run(Requests* from, Requests::iterator request) noexcept {
  Requests one;
  one.splice(one.end(), *from, request);
  auto position = running_.end();
  while (position != running_.begin() &&
         sched::ServedBefore(one.front()->place.rank, (*std::prev(position))->place.rank)) {
    --position;
  }
  running_.splice(position, one);
}

bool Batcher::Start(RequestState* request, int64_t now_us) {
  if (static_cast<int32_t>(running_.size()) >= sched::MaxRunning(limits_)) return false;
  Placement& place = request->place;
  const bool reserve = policy_.capacity == CapacityPolicy::kGuaranteedNoEvict;
  const int32_t slot = free_slots_.back();
  const kv::OpenRequest open{.cache_key = place.cache_key,
                             .tokens = request->tokens(),
                             .total_tokens = request->total_limit(),
                             .reserve = reserve,
                             .read_cache = ReadsCache(*request),
                             .write_cache = place.write_cache,
                             .retention = place.retention};
  // Room for its known tokens, and for one more block of every sequence that runs: a start that is
  // preempted in the next step gains nothing.
  if (!reserve && !running_.empty() &&
      !kv_->HasRoom(open, static_cast<int64_t>(open.tokens.size()) + 1,
                    static_cast<int64_t>(running_.size())))
    return false;
  const Result<int64_t> cached = kv_->Open(slot, open);
  if (!cached.ok()) {
    // Nothing runs, so nothing will ever be freed: waiting would be for ever.
    if (running_.empty() || cached.status().code() != StatusCode::kResourceExhausted)
      request->Finish(FinishReason::kError, cached.status());
    return false;
  }
  free_slots_.pop_back();
  place.slot = slot;
  request->SetComputed(static_cast<int32_t>(*cached));
  counters_.cached_tokens += *cached;
  place.waited_us = now_us - place.queued_us;
  if (place.started_us == 0) {
    place.started_us = now_us;
    place.cached_tokens = static_cast<int32_t>(*cached);
  }
  return true;
}

Requests::iterator Batcher::VictimOf(const RequestState& waiting) {
  if (policy_.capacity != CapacityPolicy::kMaxUtilization) return running_.end();
  for (auto candidate = running_.end(); candidate != running_.begin();) {
    --candidate;
    if (!(*candidate)->finished() &&
        sched::MayPreempt(waiting.place.rank, (*candidate)->place.rank)) {
      return candidate;
    }
  }
  return running_.end();
}

void Batcher::Preempt(Requests::iterator victim) {
  RequestState* request = victim->get();
  request->place.computed_before = std::max(request->place.computed_before, request->computed());
  ++request->place.preemptions;
  ++counters_.preemptions;
  Release(request);
  request->SetComputed(0);
  preempted_.splice(preempted_.end(), running_, victim);
}

std::vector<sched::RunningSequence> Batcher::Snapshot() {
  by_index_.clear();
  for (const auto& request : running_) {
    if (request->finished()) continue;
    index_of_slot_[request->place.slot] = static_cast<int32_t>(by_index_.size());
    by_index_.push_back(request.get());
  }
  std::vector<sched::RunningSequence> snapshot;
  snapshot.reserve(by_index_.size());
  for (RequestState* request : by_index_) {
    Placement& place = request->place;
    sched::RunningSequence sequence;
    if (!request->decoding() && ReadsCache(*request)) {
      const int64_t adopted = kv_->Adopt(place.slot, request->tokens(), request->computed());
      const int64_t reused = adopted - request->computed();
      counters_.cached_tokens += reused;
      if (place.preemptions == 0) place.cached_tokens += static_cast<int32_t>(reused);
      request->SetComputed(static_cast<int32_t>(adopted));
      const int32_t producer = kv_->Producer(place.slot);
      if (producer >= 0) sequence.producer = index_of_slot_[producer];
    }
    sequence.pending = request->pending();
    sequence.decoding = request->decoding();
    sequence.scored = request->scores_prompt();
    snapshot.push_back(sequence);
  }
  return snapshot;
}

int32_t Batcher::PrefillBudget(int64_t now_us, const sched::StepCost& cost) const {
  int64_t slack = sched::kNoDeadline;
  int32_t decoding = 0;
  for (const RequestState* request : by_index_) {
    if (!request->decoding()) continue;
    ++decoding;
    const Placement& place = request->place;
    if (place.tpot_us > 0) slack = std::min(slack, place.last_token_us + place.tpot_us - now_us);
  }
  if (slack == sched::kNoDeadline) return std::numeric_limits<int32_t>::max();
  return sched::PrefillBudget(slack, decoding, cost, kv_->group(0).block_tokens);
}

std::vector<StepEntry> Batcher::Plan(int64_t now_us, const sched::StepCost& cost) {
  const std::vector<sched::RunningSequence> snapshot = Snapshot();
  const sched::StepPolicy policy{.chunking = policy_.chunking,
                                 .chunk_unit = kv_->group(0).block_tokens,
                                 .prefill_budget = PrefillBudget(now_us, cost)};
  std::vector<StepEntry> entries;
  entries.reserve(snapshot.size());
  for (const sched::ScheduledSequence& scheduled : sched::PlanStep(snapshot, limits_, policy)) {
    const StepEntry entry{by_index_[scheduled.index], scheduled.rows, scheduled.samples};
    // It may have been preempted for one before it in the plan.
    if (entry.request->place.slot >= 0 && TakeBlocks(entry, &entries)) entries.push_back(entry);
  }
  return entries;
}

bool Batcher::TakeBlocks(const StepEntry& entry, std::vector<StepEntry>* entries) {
  for (;;) {
    RequestState* request = entry.request;
    Status status = kv_->Extend(request->place.slot, request->computed(), entry.rows);
    if (status.ok()) return true;
    if (policy_.capacity != CapacityPolicy::kMaxUtilization || running_.size() < 2 ||
        status.code() != StatusCode::kResourceExhausted) {
      request->Finish(FinishReason::kError, std::move(status));
      return false;
    }
    auto victim = std::prev(running_.end());
    while (victim != running_.begin() && (*victim)->finished()) --victim;
    std::erase_if(*entries, [&](const StepEntry& other) { return other.request == victim->get(); });
    const bool itself = victim->get() == request;
    Preempt(victim);
    if (itself) return false;
  }
}

void Batcher::Advance(const std::vector<StepEntry>& entries) {
  for (const StepEntry& entry : entries) {
    RequestState* request = entry.request;
    request->SetComputed(request->computed() + entry.rows);
    kv_->Commit(request->place.slot, request->tokens(), request->computed());
  }
}

void Batcher::Release(RequestState* request) noexcept {
  Placement& place = request->place;
  if (place.slot < 0) return;
  kv_->Close(place.slot, request->tokens(), request->computed(), !request->failed());
  free_slots_.push_back(place.slot);
  place.slot = -1;
}

}  // namespace slipstream::executor
