#include "executor/loop.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "core/fp_env.h"
#include "core/resource_exhausted.h"
#include "executor/delivery.h"

namespace slipstream::executor {
namespace {

Status Draining() {
  return Status(StatusCode::kUnavailable,
                "The executor is draining: it finishes what it has and takes nothing new. Send the "
                "request to another executor.");
}

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::KvManager> kv,
                       std::unique_ptr<kv::HostPool> host, const LoopConfig& config,
                       const core::RowMath& math)
    : config_(config),
      log_(config.iteration_history),
      batcher_(std::move(kv), config.limits, config.batch),
      runner_(std::move(backend), std::move(host), config.vocab_size, math),
      queue_(config.queue, config.ageing_us) {
  const kv::KvManager& blocks = batcher_.kv();
  for (int32_t g = 0; g < blocks.num_groups(); ++g) {
    total_blocks_.push_back(blocks.total_blocks(g));
    block_tokens_.push_back(blocks.group(g).block_tokens);
  }
  stats_.kv_blocks_total = blocks.total_blocks();
  stats_.host_blocks_total = blocks.host_total_slots();
  UpdateGaugesLocked();
}

EngineLoop::~EngineLoop() { Stop(); }

Status EngineLoop::Start() {
  try {
    std::lock_guard<std::mutex> guard(join_mutex_);
    working_ = true;  // until its thread sleeps for the first time
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
  if (stopping_) return ShutDown();
  return draining_ ? Draining() : Status::Ok();
}

std::vector<Status> EngineLoop::Enqueue(Requests requests) {
  std::vector<Status> statuses;
  statuses.reserve(requests.size());
  Requests refused;  // destroyed without the mutex: their callbacks are code of the caller
  {
    std::lock_guard<std::mutex> guard(mutex_);
    const int64_t now_us = NowUs();
    while (!requests.empty()) {
      RequestState& request = *requests.front();
      Status status;
      try {
        status = stopping_ ? ShutDown() : draining_ ? Draining() : queue_.Admits(request);
        if (status.ok()) live_.insert(request.id);
      } catch (const std::bad_alloc&) {  // those before it are queued
        status = NoMemoryToQueue();
      }
      if (status.ok()) {
        next_limit_us_ = std::min(next_limit_us_, request.place.limit_us);
        queue_.Insert(&requests, requests.begin(), now_us);
        ++stats_.requests_submitted;
      } else {
        refused.splice(refused.end(), requests, requests.begin());
      }
      statuses.push_back(std::move(status));
    }
    UpdateQueueGaugesLocked();
  }
  wake_.notify_one();
  return statuses;
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

Status EngineLoop::Call(const BorderWork& work) {
  if (OnOwnThread()) {
    return Status(
        StatusCode::kInvalidArgument,
        "This was called from a callback, which holds up the step that it would wait for. "
        "Call it from another thread.");
  }
  return calls_.Call(work, [this] {
    { std::lock_guard<std::mutex> guard(mutex_); }  // the loop looks at them under it
    wake_.notify_one();
  });
}

void EngineLoop::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  paused_ = true;
  if (OnOwnThread()) return;
  quiet_.wait(lock, [this] { return !working_ || !paused_ || stopping_; });
}

void EngineLoop::Resume() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    paused_ = false;
  }
  wake_.notify_one();
  quiet_.notify_all();
}

bool EngineLoop::Drain(std::chrono::milliseconds timeout) {
  // Some standard libraries overflow on a wait that ends beyond their clock.
  timeout = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0),
                                                  std::chrono::hours(24 * 3650));
  std::unique_lock<std::mutex> lock(mutex_);
  draining_ = true;
  if (OnOwnThread()) return live_.empty();
  return quiet_.wait_for(lock, timeout, [this] { return live_.empty() && !working_; });
}

void EngineLoop::Stop() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  quiet_.notify_all();
  if (OnOwnThread()) return;  // a callback: joining would wait for ourselves
  std::lock_guard<std::mutex> guard(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void EngineLoop::Run() noexcept {
  const core::ScopedFpEnv fp_env;  // the sampler is part of the numerics contract
  while (WaitForWork()) {
    StartStep();
    WorkAhead();
    FinishStep();
  }
  Deliver();
  calls_.Close();
  std::lock_guard<std::mutex> guard(mutex_);
  working_ = false;
  quiet_.notify_all();
}

void EngineLoop::FailRunning(const std::exception& error) noexcept {
  Requests& running = batcher_.running();
  for (const auto& request : running) request->Finish(FinishReason::kError, FromException(error));
  if (!running.empty()) return;
  std::lock_guard<std::mutex> guard(mutex_);
  if (queue_.empty()) return;
  (*queue_.begin())->Finish(FinishReason::kError, FromException(error));
  queue_.Take(queue_.begin(), &ended_);
}

bool EngineLoop::HasWorkLocked() const {
  if (stopping_ || !cancelled_.empty() || news_ || !untold_.empty() || calls_.waiting())
    return true;
  if (!paused_ && (!queue_.empty() || !batcher_.running().empty())) return true;
  return NowUs() >= next_limit_us_;
}

bool EngineLoop::WaitForWork() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!HasWorkLocked()) {
    working_ = false;
    quiet_.notify_all();
    if (next_limit_us_ == sched::kNoDeadline) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, std::chrono::microseconds(next_limit_us_ - NowUs()));
    }
  }
  working_ = true;
  const int64_t now_us = NowUs();
  if (stopping_ || !cancelled_.empty() || now_us >= next_limit_us_) EndLocked(now_us);
  return !stopping_;
}

// Ends what was cancelled or ran out of time.
void EngineLoop::EndLocked(int64_t now_us) noexcept {
  next_limit_us_ = sched::kNoDeadline;
  const auto reason = [&](const RequestState& request) {
    if (stopping_ || cancelled_.contains(request.id)) return FinishReason::kCancelled;
    if (now_us >= request.place.limit_us) return FinishReason::kTimeLimit;
    next_limit_us_ = std::min(next_limit_us_, request.place.limit_us);
    return FinishReason::kNone;
  };
  for (const auto& request : batcher_.running()) {
    const FinishReason end = reason(*request);
    if (end != FinishReason::kNone) request->Finish(end);
  }
  for (auto next = queue_.begin(); next != queue_.end();) {
    const auto request = next++;
    const FinishReason end = reason(**request);
    if (end == FinishReason::kNone) continue;
    (*request)->Finish(end);
    queue_.Take(request, &ended_);
  }
  cancelled_.clear();
}

void EngineLoop::Admit(Admission admission) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (!paused_) batcher_.Admit(&queue_, NowUs(), admission);
  UpdateGaugesLocked();
}

void EngineLoop::Requeue() noexcept {
  Requests& preempted = batcher_.preempted();
  if (preempted.empty()) return;
  std::lock_guard<std::mutex> guard(mutex_);
  while (!preempted.empty()) queue_.Insert(&preempted, preempted.begin(), NowUs());
}

void EngineLoop::StartStep() noexcept {
  Retire();
  calls_.Run(batcher_, runner_);
  news_ = true;  // a copy that failed there has ended what ran
  try {
    TryStartStep();
  } catch (const std::exception& error) {
    Requeue();
    FailRunning(error);
  }
}

void EngineLoop::TryStartStep() {
  Admit(Admission::kMayPreempt);
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (paused_) return;  // woken for a cancellation, or to tell news
  }
  record_.iteration.start_us = NowUs();
  std::vector<StepEntry> entries = batcher_.Plan(record_.iteration.start_us, runner_.cost());
  Requeue();
  news_ = true;  // of whom Plan has ended
  if (entries.empty()) return;
  record_.Describe(entries, batcher_.kv(), log_.enabled());
  record_.iteration.schedule_us = NowUs() - record_.iteration.start_us;
  if (Status status = runner_.Start(std::move(entries), &batcher_); !status.ok()) CloseStep(status);
}

void EngineLoop::WorkAhead() noexcept {
  Deliver();
  if (!runner_.in_flight()) return;
  try {
    Admit(Admission::kIfRoom);
  } catch (const std::bad_alloc&) {  // nothing has changed; StartStep meets it again
  }
}

void EngineLoop::FinishStep() noexcept {
  if (runner_.in_flight()) CloseStep(runner_.Finish(&batcher_));
}

void EngineLoop::CloseStep(const Status& status) noexcept {
  news_ = true;
  const int64_t now_us = NowUs();
  int64_t generated = -record_.known_tokens;
  for (const StepEntry& entry : runner_.entries()) {
    RequestState* request = entry.request;
    generated += static_cast<int64_t>(request->tokens().size());
    if (!status.ok()) {
      request->Fail(status);
      for (const auto& sibling : request->siblings) sibling->Fail(status);
    } else if (entry.samples) {
      request->place.last_token_us = now_us;
      if (request->place.first_token_us == 0) request->place.first_token_us = now_us;
    }
  }
  generated += batcher_.Branch(runner_.entries());
  Requeue();
  const int64_t preemptions = batcher_.counters().preemptions;
  record_.iteration.preempted =
      static_cast<int32_t>(preemptions - std::exchange(logged_preemptions_, preemptions));
  CountStep(generated, status.ok());
}

void EngineLoop::CountStep(int64_t generated, bool computed) {
  const StepTimes& times = runner_.times();
  record_.iteration.schedule_us += times.schedule_us;
  record_.iteration.model_us = times.model_us;
  record_.iteration.sample_us = times.sample_us;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    ++stats_.steps;
    if (computed) {
      stats_.prefill_tokens_computed += record_.iteration.prefill_rows;
      stats_.recomputed_tokens += record_.recomputed;
    }
    stats_.generated_tokens += generated;
    stats_.schedule_us += record_.iteration.schedule_us;
    stats_.model_us += record_.iteration.model_us;
    stats_.sample_us += record_.iteration.sample_us;
    UpdateGaugesLocked();
    record_.iteration.step = stats_.steps;
    record_.iteration.waiting = stats_.waiting;
  }
  record_.iteration.start_us -= created_us_;
  if (log_.enabled()) log_.Add(&record_.iteration);
}

void EngineLoop::Retire() noexcept {
  Requests& running = batcher_.running();
  for (auto next = running.begin(); next != running.end();) {
    const auto request = next++;
    if ((*request)->finished()) ended_.splice(ended_.end(), running, request);
  }
  if (ended_.empty()) return;
  Requests dropped;  // destroyed without the mutex: their callbacks are the caller's code
  std::lock_guard<std::mutex> guard(mutex_);
  while (!ended_.empty()) {
    const auto ended = ended_.begin();
    RequestState& request = **ended;
    EndSiblings(&request, &ended_);
    batcher_.Release(&request);
    const RequestId id = request.id;
    if (!Settle(&ended_, ended, &untold_, &dropped)) continue;
    live_.erase(id);
    cancelled_.erase(id);
    ++stats_.requests_finished;
  }
  UpdateGaugesLocked();
}

void EngineLoop::Deliver() noexcept {
  const int64_t begin_us = NowUs();
  do {
    // The rows of a request in flight keep their blocks until the step is finished.
    if (!runner_.in_flight()) Retire();
    Requests told;
    told.swap(untold_);
    for (const auto& request : told) Tell(request.get());
    news_ = false;
    for (const auto& request : batcher_.running()) {
      if (request->finished() || request->held() || !request->has_news()) continue;
      // A callback that throws finishes its request: its end is to be told in turn.
      if (!Tell(request.get())) news_ = true;
    }
  } while (news_ && !runner_.in_flight());
  deliver_us_ += NowUs() - begin_us;
}

void EngineLoop::UpdateQueueGaugesLocked() noexcept {
  stats_.waiting = static_cast<int32_t>(queue_.size());
  stats_.waiting_tokens = queue_.tokens();
}

void EngineLoop::UpdateGaugesLocked() noexcept {
  UpdateQueueGaugesLocked();
  stats_.running = static_cast<int32_t>(batcher_.running().size());
  stats_.kv_blocks_free = batcher_.kv().free_blocks();
  stats_.kv_blocks_cached = batcher_.kv().evictable_blocks();
  stats_.cached_tokens = batcher_.counters().cached_tokens;
  stats_.preemptions = batcher_.counters().preemptions;
  const BlockMover& mover = runner_.mover();
  stats_.blocks_copied = mover.copied();
  stats_.blocks_swapped_out = mover.swapped_out();
  stats_.blocks_swapped_in = mover.swapped_in();
  stats_.host_blocks_used = batcher_.kv().host_used_slots();
  stats_.deliver_us = deliver_us_;
}

}  // namespace slipstream::executor
