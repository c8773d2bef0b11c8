// The engine loop: one thread that admits, schedules, runs and samples, step by step.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "exec/backend.h"
#include "executor/request_state.h"
#include "executor/step_builder.h"
#include "executor/step_sampler.h"
#include "executor/step_turn.h"
#include "kv/kv_manager.h"
#include "sched/snapshot.h"
#include "slipstream/stats.h"

namespace slipstream::executor {

/// Methods are thread-safe. The loop runs from Start until Stop; it sleeps while there is nothing
/// to do.
class EngineLoop {
 public:
  EngineLoop(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::KvManager> kv,
             const sched::Limits& limits, int32_t max_queued, int32_t vocab_size,
             const core::RowMath& math, std::shared_ptr<StepTurn> turn);
  ~EngineLoop();

  /// kResourceExhausted when the thread cannot start.
  Status Start();

  /// Ok while requests are accepted, else kUnavailable.
  Status Accepting() const;
  /// Queues a request under the given id. kUnavailable or kResourceExhausted (queue full); the
  /// request is dropped then.
  Status Enqueue(RequestId id, std::unique_ptr<RequestState> request);
  /// kNotFound when `id` is not queued or running.
  Status Cancel(RequestId id);
  ExecutorStats Stats() const;
  /// Refuses new requests, cancels the others and, unless called from the loop's own thread, waits
  /// for its end.
  void Stop();

  /// Blocks that a request of `total_tokens` needs, per group: constant, so safe from any thread.
  std::vector<int64_t> BlocksNeeded(int64_t total_tokens) const { return kv_->Need(total_tokens); }
  const std::vector<int64_t>& total_blocks() const { return total_blocks_; }
  const std::vector<int32_t>& block_tokens() const { return block_tokens_; }

 private:
  void Run() noexcept;
  /// Sleeps until there is work and ends what was cancelled. False when the loop is to stop.
  bool WaitForWork() noexcept;
  void Admit();
  void RunStep();
  /// Submits, waits, samples. An error concerns all entries; a bad row ends its own request only.
  Status ExecuteStep(std::vector<StepEntry>& entries);
  /// Frees what finished requests hold, then tells the news of all, each request once.
  void Deliver() noexcept;
  void Retire() noexcept;
  /// After an exception: ends what runs, or if nothing does, the request that waits longest, so
  /// that no fault is met for ever.
  void FailRunning(const std::exception& error) noexcept;
  void UpdateGaugesLocked() noexcept;

  std::unique_ptr<exec::Backend> backend_;
  std::unique_ptr<kv::KvManager> kv_;  // after Start: changed by the loop's thread only
  const sched::Limits limits_;
  const int32_t max_queued_;
  std::shared_ptr<StepTurn> turn_;
  std::vector<int64_t> total_blocks_;
  std::vector<int32_t> block_tokens_;

  // Lists: a request moves from one to the next without an allocation, so it is never lost.
  using Requests = std::list<std::unique_ptr<RequestState>>;

  // The loop's thread only.
  Requests running_;  // by arrival
  Requests ended_;    // finished, not yet told
  std::vector<int32_t> free_slots_;
  StepSampler sampler_;
  exec::StepBatch batch_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  Requests waiting_;                         // by arrival
  std::unordered_set<RequestId> live_;       // waiting or running
  std::unordered_set<RequestId> cancelled_;  // of live_, to be ended at the next step border
  ExecutorStats stats_;
  bool stopping_ = false;

  std::mutex join_mutex_;  // guards thread_
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;
};

}  // namespace slipstream::executor
