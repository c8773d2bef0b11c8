// The engine loop: one thread that admits, plans, samples and tells, step by step, while the
// backend computes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "executor/batcher.h"
#include "executor/border_calls.h"
#include "executor/iteration_log.h"
#include "executor/request_queue.h"
#include "executor/step_record.h"
#include "executor/step_runner.h"
#include "slipstream/stats.h"

namespace slipstream::executor {

struct LoopConfig {
  sched::Limits limits;
  BatchPolicy batch;
  QueueLimits queue;
  int64_t ageing_us = 0;
  int32_t iteration_history = 0;
  int32_t vocab_size = 0;
};

/// Methods are thread-safe. The loop runs from Start until Stop; it sleeps while there is nothing
/// to do.
class EngineLoop {
 public:
  /// `host`: the memory of the host slots that `kv` has; null where it has none.
  EngineLoop(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::KvManager> kv,
             std::unique_ptr<kv::HostPool> host, const LoopConfig& config,
             const core::RowMath& math);
  ~EngineLoop();

  /// kResourceExhausted when the thread cannot start.
  Status Start();

  /// Called from a callback or a logits processor.
  bool OnOwnThread() const { return std::this_thread::get_id() == thread_id_.load(); }
  /// Ok while requests are accepted, else kUnavailable.
  Status Accepting() const;
  /// Queues requests under their ids, all between two steps. The status of each: kUnavailable or
  /// kResourceExhausted (queue full); such a request is dropped.
  std::vector<Status> Enqueue(Requests requests);
  /// kNotFound when `id` is not queued or running.
  Status Cancel(RequestId id);
  ExecutorStats Stats() const;
  std::vector<Iteration> Iterations(int64_t after_step) const { return log_.After(after_step); }

  /// Has `work` called on the loop's thread while no step is in flight, and waits for it: its
  /// status, kResourceExhausted when memory ran out in it, kInvalidArgument when called from that
  /// thread, kUnavailable once stopped.
  Status Call(const BorderWork& work);

  /// As Executor says of them.
  void Pause();
  void Resume();
  bool Drain(std::chrono::milliseconds timeout);
  /// Refuses new requests, cancels the others and, unless called from the loop's own thread, waits
  /// for its end.
  void Stop();

  /// Blocks that a request of `total_tokens` needs, per group: constant, so safe from any thread.
  std::vector<int64_t> BlocksNeeded(int64_t total_tokens) const {
    return batcher_.kv().Need(total_tokens);
  }
  const std::vector<int64_t>& total_blocks() const { return total_blocks_; }
  const std::vector<int32_t>& block_tokens() const { return block_tokens_; }

 private:
  void Run() noexcept;
  /// Sleeps until there is work, and ends what was cancelled or ran out of time. False when the
  /// loop is to stop.
  bool WaitForWork() noexcept;
  bool HasWorkLocked() const;
  void EndLocked(int64_t now_us) noexcept;
  /// Admits, plans and submits; nothing is in flight where nothing can run.
  void StartStep() noexcept;
  void TryStartStep();
  /// What can be done for the next step while one is in flight: news is told, requests are let in.
  void WorkAhead() noexcept;
  void FinishStep() noexcept;
  /// Tells the loop's books of the step in work, and ends its requests where it failed.
  void CloseStep(const Status& status) noexcept;
  void Admit(Admission admission);
  /// Puts what was preempted back into the queue.
  void Requeue() noexcept;
  void CountStep(int64_t generated, bool computed);
  /// Frees what finished requests hold; their ends wait in untold_.
  void Retire() noexcept;
  /// Tells the news of all, each request once.
  void Deliver() noexcept;
  /// After an exception: ends what runs, or if nothing does, the request that is first in line, so
  /// that no fault is met for ever.
  void FailRunning(const std::exception& error) noexcept;
  void UpdateQueueGaugesLocked() noexcept;
  void UpdateGaugesLocked() noexcept;

  const LoopConfig config_;
  std::vector<int64_t> total_blocks_;
  std::vector<int32_t> block_tokens_;
  const int64_t created_us_ = NowUs();
  IterationLog log_;
  BorderCalls calls_;

  // The loop's thread only, after Start.
  Batcher batcher_;
  StepRunner runner_;
  Requests ended_;                  // finished, but they still hold what they held
  Requests untold_;                 // they hold nothing any more, and their end is to be told
  bool news_ = false;               // running requests may have news
  StepRecord record_;               // of the step in work
  int64_t logged_preemptions_ = 0;  // those that the steps before it tell of
  int64_t deliver_us_ = 0;

  mutable std::mutex mutex_;       // guards all below
  std::condition_variable wake_;   // for the loop: there may be work
  std::condition_variable quiet_;  // for Pause and Drain: the loop has told all news
  RequestQueue queue_;
  std::unordered_set<RequestId> live_;          // waiting or running
  std::unordered_set<RequestId> cancelled_;     // of live_, to be ended at the next step border
  int64_t next_limit_us_ = sched::kNoDeadline;  // no time limit of a live request is sooner
  ExecutorStats stats_;
  bool working_ = false;  // the loop is not asleep in WaitForWork
  bool paused_ = false;
  bool draining_ = false;
  bool stopping_ = false;

  std::mutex join_mutex_;  // guards thread_
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;
};

}  // namespace slipstream::executor
