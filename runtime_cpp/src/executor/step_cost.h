// What a step costs in time, learnt from the steps that ran.
#pragma once

#include <cstdint>

#include "sched/step_planner.h"

namespace slipstream::executor {

/// Fits time = base + rows * per row by least squares over the steps so far, where each step counts
/// a little less than the one after it, so that the fit follows the machine.
class StepCostEstimate {
 public:
  void Observe(int32_t rows, int64_t microseconds);
  /// Zero until steps of different sizes have run.
  sched::StepCost Get() const;

 private:
  double weight_ = 0, rows_ = 0, time_ = 0, rows_rows_ = 0, rows_time_ = 0;
};

}  // namespace slipstream::executor
