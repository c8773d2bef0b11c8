// What runs: who starts, which rows each gets in the next step, and whose blocks they take.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/request_queue.h"
#include "executor/step_builder.h"
#include "kv/kv_manager.h"
#include "sched/snapshot.h"
#include "sched/step_planner.h"
#include "slipstream/config.h"

namespace slipstream::executor {

struct BatchPolicy {
  CapacityPolicy capacity = CapacityPolicy::kGuaranteedNoEvict;
  ChunkingPolicy chunking = ChunkingPolicy::kFirstCome;
};

enum class Admission : uint8_t {
  kIfRoom = 0,  ///< A step is in flight: nobody who runs may be disturbed.
  /// Those of higher priority take the place of others, where the policy says so.
  kMayPreempt = 1,
};

/// Counters of what it did; they only grow.
struct BatchCounters {
  int64_t cached_tokens = 0;
  int64_t preemptions = 0;
};

/// Belongs to the loop's thread. Where memory runs out it throws std::bad_alloc, and every request
/// is still in one of the lists.
class Batcher {
 public:
  /// `kv` has one slot more than limits.max_batch_size.
  Batcher(std::unique_ptr<kv::KvManager> kv, const sched::Limits& limits,
          const BatchPolicy& policy);

  /// Starts requests from the front of the queue while they fit. The caller holds the mutex of the
  /// queue.
  void Admit(RequestQueue* queue, int64_t now_us, Admission admission);

  /// The rows of the next step, with the blocks for them taken. Requests that are preempted for it
  /// are put into preempted(); one whose blocks cannot be had is finished with its error.
  std::vector<StepEntry> Plan(int64_t now_us, const sched::StepCost& cost);

  /// The entries' rows are computed: counts them and lets others use their KV.
  void Advance(const std::vector<StepEntry>& entries);

  /// After the step has sampled: the siblings of a request whose prompt it completed run beside it
  /// on its blocks; those that find no place are put into preempted(). The number of tokens that
  /// they drew.
  int64_t Branch(std::span<const StepEntry> entries) noexcept;

  /// Gives back what a request of running() or one taken out of it holds. What an error ended is
  /// not kept for others.
  void Release(RequestState* request) noexcept;

  Requests& running() { return running_; }  ///< Best rank first.
  const Requests& running() const { return running_; }
  Requests& preempted() { return preempted_; }  ///< To be queued again.
  /// A slot of the KV manager that no request ever has: for work between steps.
  int32_t spare_slot() const { return limits_.max_batch_size; }
  kv::KvManager& kv() { return *kv_; }
  const kv::KvManager& kv() const { return *kv_; }
  const BatchCounters& counters() const { return counters_; }

 private:
  bool Start(RequestState* request, int64_t now_us);
  /// Takes the request to its place in running(), which Plan relies on: in order of rank.
  void Run(Requests* from, Requests::iterator request) noexcept;
  bool Fork(const RequestState& parent, RequestState* child);
  /// The last in rank that `waiting` may preempt; end() if there is none.
  Requests::iterator VictimOf(const RequestState& waiting);
  /// Takes its blocks and its slot; it goes to the end of `to`.
  void Preempt(Requests::iterator victim);
  /// Extends the entry's blocks; false when the request gets no rows in this step.
  bool TakeBlocks(const StepEntry& entry, std::vector<StepEntry>* entries);
  std::vector<sched::RunningSequence> Snapshot();
  int32_t PrefillBudget(int64_t now_us, const sched::StepCost& cost) const;

  std::unique_ptr<kv::KvManager> kv_;
  const sched::Limits limits_;
  const BatchPolicy policy_;
  Requests running_;
  Requests preempted_;
  std::vector<int32_t> free_slots_;
  std::vector<RequestState*> by_index_;  // the snapshot's sequences
  std::vector<int32_t> index_of_slot_;   // into by_index_
  BatchCounters counters_;
};

}  // namespace slipstream::executor
