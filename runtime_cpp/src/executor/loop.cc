#include "executor/loop.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/fp_env.h"
#include "core/resource_exhausted.h"
#include "sched/admission.h"
#include "sched/step_planner.h"

namespace slipstream::executor {
namespace {

Status FromException(const std::exception& error) noexcept {
  try {
    if (!dynamic_cast<const std::bad_alloc*>(&error)) {
      return Status(StatusCode::kInternal,
                    std::string("A step failed: ") + error.what() + ". Please report this.");
    }
  } catch (const std::bad_alloc&) {  // the same as running out of it in the step
  }
  return core::ResourceExhausted(
      "The process ran out of memory during a step. Lower kv_memory_bytes, max_batch_size or "
      "max_num_tokens.");
}

Status CallbackThrew(RequestId id, std::string_view reason) noexcept {
  try {
    return Status(StatusCode::kInvalidArgument,
                  "The response callback of request " + std::to_string(id) +
                      " threw: " + std::string(reason) + ". Catch exceptions inside the callback.");
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory.");
  }
}

// Gives a step back however its sampling ends: memory may run out there.
struct StepRelease {
  exec::Backend& backend;
  exec::StepHandle step;
  ~StepRelease() { backend.Release(step); }
};

// Tells the news. False when that failed and thereby ended a request that was still going.
bool Tell(RequestState* request) noexcept {
  const bool last = request->finished();
  Response news = request->TakeNews();
  Status failure;
  if (!request->callback) {
    if (request->mailbox->Post(std::move(news))) return true;
    failure = core::ResourceExhausted("No memory is left for the answer.");
  } else {
    try {
      request->callback(news);
      return true;
    } catch (const std::exception& error) {
      failure = CallbackThrew(request->id, error.what());
    } catch (...) {
      failure = CallbackThrew(request->id, "something that is no std::exception");
    }
  }
  if (last) return true;  // nothing follows a last response
  request->Finish(FinishReason::kError, std::move(failure));
  return false;
}

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::KvManager> kv,
                       const sched::Limits& limits, int32_t max_queued, int32_t vocab_size,
                       const core::RowMath& math, std::shared_ptr<StepTurn> turn)
    : backend_(std::move(backend)),
      kv_(std::move(kv)),
      limits_(limits),
      max_queued_(max_queued),
      turn_(std::move(turn)),
      sampler_(vocab_size, math) {
  for (int32_t g = 0; g < kv_->num_groups(); ++g) {
    total_blocks_.push_back(kv_->total_blocks(g));
    block_tokens_.push_back(kv_->group(g).block_tokens);
  }
  for (int32_t slot = limits_.max_batch_size - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  stats_.kv_blocks_total = kv_->total_blocks();
  UpdateGaugesLocked();
}

EngineLoop::~EngineLoop() { Stop(); }

Status EngineLoop::Start() {
  try {
    std::lock_guard<std::mutex> guard(join_mutex_);
    thread_ = std::thread([this] {
      thread_id_ = std::this_thread::get_id();
      Run();
    });
  } catch (const std::system_error& error) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("The executor's thread cannot start: ") + error.what() +
                      ". Raise the limit of threads.");
  }
  return Status::Ok();
}

Status EngineLoop::Accepting() const {
  std::lock_guard<std::mutex> guard(mutex_);
  if (stopping_)
    return Status(StatusCode::kUnavailable, "The executor is shut down; create a new one.");
  return Status::Ok();
}

Status EngineLoop::Enqueue(RequestId id, std::unique_ptr<RequestState> request) {
  Requests one;
  one.push_back(std::move(request));
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (stopping_)
      return Status(StatusCode::kUnavailable, "The executor is shut down; create a new one.");
    if (static_cast<int64_t>(waiting_.size()) >= max_queued_) {
      return Status(StatusCode::kResourceExhausted,
                    "The queue is full: " + std::to_string(waiting_.size()) +
                        " requests wait, max_queued_requests is " + std::to_string(max_queued_) +
                        ". Submit again later or raise max_queued_requests.");
    }
    one.front()->id = id;
    live_.insert(id);
    waiting_.splice(waiting_.end(), one);
    ++stats_.requests_submitted;
    stats_.waiting = static_cast<int32_t>(waiting_.size());
  }
  wake_.notify_one();
  return Status::Ok();
}

Status EngineLoop::Cancel(RequestId id) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!live_.contains(id)) {
      return Status(StatusCode::kNotFound,
                    "Request " + std::to_string(id) + " is unknown or already finished.");
    }
    cancelled_.insert(id);
  }
  wake_.notify_one();
  return Status::Ok();
}

ExecutorStats EngineLoop::Stats() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return stats_;
}

void EngineLoop::Stop() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (std::this_thread::get_id() == thread_id_.load())
    return;  // a callback: joining would wait for ourselves
  std::lock_guard<std::mutex> guard(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void EngineLoop::Run() noexcept {
  const core::ScopedFpEnv fp_env;  // the sampler is part of the numerics contract
  while (WaitForWork()) {
    Deliver();
    try {
      Admit();
      RunStep();
    } catch (const std::exception& error) {
      FailRunning(error);
    }
    Deliver();
  }
  Deliver();
}

void EngineLoop::FailRunning(const std::exception& error) noexcept {
  for (const auto& request : running_) request->Finish(FinishReason::kError, FromException(error));
  if (!running_.empty()) return;
  std::lock_guard<std::mutex> guard(mutex_);
  if (waiting_.empty()) return;
  waiting_.front()->Finish(FinishReason::kError, FromException(error));
  ended_.splice(ended_.end(), waiting_, waiting_.begin());
}

bool EngineLoop::WaitForWork() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [this] {
    return stopping_ || !cancelled_.empty() || !waiting_.empty() || !running_.empty();
  });
  if (!stopping_ && cancelled_.empty()) return true;
  const auto ends = [this](const auto& request) {
    return stopping_ || cancelled_.contains(request->id);
  };
  for (const auto& request : running_) {
    if (ends(request)) request->Finish(FinishReason::kCancelled);
  }
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto request = next++;
    if (!ends(*request)) continue;
    (*request)->Finish(FinishReason::kCancelled);
    ended_.splice(ended_.end(), waiting_, request);
  }
  cancelled_.clear();
  return !stopping_;
}

void EngineLoop::Admit() {
  std::lock_guard<std::mutex> guard(mutex_);
  const int32_t running = static_cast<int32_t>(running_.size());
  // No more than the free places can be admitted: look no further into a long queue.
  const size_t places = static_cast<size_t>(std::max(0, sched::MaxRunning(limits_) - running));
  std::vector<sched::WaitingRequest> queue;
  for (auto request = waiting_.begin(); request != waiting_.end() && queue.size() < places;
       ++request)
    queue.push_back({(*request)->blocks_needed});
  const int32_t admitted = sched::CountAdmissible(queue, running, limits_, kv_->Unreserved());
  for (int32_t i = 0; i < admitted; ++i) {
    const int32_t slot = free_slots_.back();
    RequestState* request = waiting_.front().get();
    if (Status status = kv_->Open(slot, {.tokens = request->tokens(),
                                         .total_tokens = request->total_limit(),
                                         .read_cache = !request->scores_prompt()})
                            .status();
        !status.ok()) {
      request->Finish(FinishReason::kError, std::move(status));
      ended_.splice(ended_.end(), waiting_, waiting_.begin());
      continue;
    }
    free_slots_.pop_back();
    request->slot = slot;
    running_.splice(running_.end(), waiting_, waiting_.begin());
  }
  UpdateGaugesLocked();
}

void EngineLoop::RunStep() {
  std::vector<sched::RunningSequence> snapshot;
  std::vector<RequestState*> requests;
  snapshot.reserve(running_.size());
  requests.reserve(running_.size());
  for (const auto& request : running_) {
    snapshot.push_back({request->pending(), request->decoding(), request->scores_prompt()});
    requests.push_back(request.get());
  }
  std::vector<StepEntry> entries;
  for (const sched::ScheduledSequence& scheduled : sched::PlanStep(snapshot, limits_)) {
    RequestState* request = requests[scheduled.index];
    if (Status status = kv_->Extend(request->slot, request->computed(), scheduled.rows);
        !status.ok()) {
      request->Finish(FinishReason::kError, std::move(status));
      continue;
    }
    entries.push_back({request, scheduled.rows, scheduled.samples});
  }
  if (entries.empty()) return;

  int64_t prefill = 0, generated = 0;
  for (const StepEntry& entry : entries) {
    if (!entry.request->decoding()) prefill += entry.rows;
    generated -= static_cast<int64_t>(entry.request->tokens().size());
  }
  Status status;
  try {
    status = ExecuteStep(entries);
  } catch (const std::exception& error) {
    status = FromException(error);
  }
  for (const StepEntry& entry : entries) {
    generated += static_cast<int64_t>(entry.request->tokens().size());
    if (!status.ok()) entry.request->Finish(FinishReason::kError, status);
  }
  std::lock_guard<std::mutex> guard(mutex_);
  ++stats_.steps;
  if (status.ok()) stats_.prefill_tokens_computed += prefill;
  stats_.generated_tokens += generated;
  UpdateGaugesLocked();
}

Status EngineLoop::ExecuteStep(std::vector<StepEntry>& entries) {
  BuildStep(entries, *kv_, &batch_);
  // Other executors of the same Runtime wait here for their turn.
  const std::lock_guard<StepTurn> turn(*turn_);
  const Result<exec::StepHandle> step = backend_->Submit(batch_);
  if (!step.ok()) return step.status();
  const StepRelease release{*backend_, *step};
  for (const StepEntry& entry : entries) entry.request->AdvanceComputed(entry.rows);
  return sampler_.Sample(*backend_, *step, entries);
}

void EngineLoop::Deliver() noexcept {
  for (bool again = true; again;) {
    for (auto next = running_.begin(); next != running_.end();) {
      const auto request = next++;
      if ((*request)->finished()) ended_.splice(ended_.end(), running_, request);
    }
    Retire();
    Requests told;
    told.swap(ended_);
    for (const auto& request : told) Tell(request.get());
    again = false;
    // A callback that throws finishes its request: once more around, to free it and tell its end.
    for (const auto& request : running_) {
      if (request->has_news() && !Tell(request.get())) again = true;
    }
  }
}

void EngineLoop::Retire() noexcept {
  std::lock_guard<std::mutex> guard(mutex_);
  for (const auto& request : ended_) {
    if (request->slot >= 0) {
      kv_->Close(request->slot, request->tokens(), request->computed(), false);
      free_slots_.push_back(request->slot);
      request->slot = -1;
    }
    live_.erase(request->id);
    cancelled_.erase(request->id);
    ++stats_.requests_finished;
  }
  UpdateGaugesLocked();
}

void EngineLoop::UpdateGaugesLocked() noexcept {
  stats_.running = static_cast<int32_t>(running_.size());
  stats_.waiting = static_cast<int32_t>(waiting_.size());
  stats_.kv_blocks_free = kv_->free_blocks();
}

}  // namespace slipstream::executor
