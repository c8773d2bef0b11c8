// Carries out one step at a time: copies, Submit, Wait, sampling.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "exec/backend.h"
#include "executor/batcher.h"
#include "executor/block_mover.h"
#include "executor/step_builder.h"
#include "executor/step_cost.h"
#include "executor/step_sampler.h"

namespace slipstream::executor {

/// What a call on an executor that is shut down gets.
Status ShutDown() noexcept;

/// The error of a request that was in a step which threw.
Status FromException(const std::exception& error) noexcept;

/// Where the time of the step in work went. Microseconds.
struct StepTimes {
  int64_t schedule_us = 0;  ///< Building it and counting it.
  int64_t model_us = 0;     ///< From Submit to the end of Wait.
  int64_t sample_us = 0;
};

/// Between Start and Finish the backend computes and the caller is free for other work. It may open
/// sequences of the KV cache then, but close none that is in the step. Belongs to the loop's
/// thread.
class StepRunner {
 public:
  StepRunner(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::HostPool> host,
             int32_t vocab_size, const core::RowMath& math);
  ~StepRunner();

  /// Carries out the pending copies of the KV cache and submits the rows of `entries`. An error
  /// concerns all entries, and nothing is in flight then; if it was a copy that failed, all that
  /// runs is finished with it and the cache is empty: its target may be the begin of a sequence
  /// without rows in this step, or be cached already, and what the index has on either tier may not
  /// be there.
  Status Start(std::vector<StepEntry> entries, Batcher* batcher) noexcept;
  bool in_flight() const { return in_flight_; }
  /// Of the last Start.
  const std::vector<StepEntry>& entries() const { return entries_; }

  /// Waits for the step, counts its rows as computed and samples. An error concerns all entries; a
  /// bad row ends its own request only. Nothing is in flight afterwards.
  Status Finish(Batcher* batcher) noexcept;

  const StepTimes& times() const { return times_; }
  sched::StepCost cost() const { return cost_.Get(); }
  /// Carries out the pending copies of the KV cache, between steps; for a failure see Start.
  Status CopyBlocks(Batcher* batcher);

  BlockMover& mover() { return mover_; }
  const BlockMover& mover() const { return mover_; }

 private:
  Status TryStart(Batcher* batcher);
  Status TryFinish(Batcher* batcher);

  std::unique_ptr<exec::Backend> backend_;
  BlockMover mover_;  // over backend_
  StepSampler sampler_;
  StepCostEstimate cost_;
  std::vector<StepEntry> entries_;
  exec::StepBatch batch_;
  exec::StepHandle step_ = 0;
  bool in_flight_ = false;
  int64_t submitted_us_ = 0;
  StepTimes times_;
};

}  // namespace slipstream::executor
