#include "executor/step_cost.h"

#include <algorithm>

namespace slipstream::executor {
namespace {

constexpr double kDecay = 0.98;  // half the weight lies on the latest 35 steps

}  // namespace

void StepCostEstimate::Observe(int32_t rows, int64_t microseconds) {
  const double x = rows, y = static_cast<double>(microseconds);
  weight_ = weight_ * kDecay + 1;
  rows_ = rows_ * kDecay + x;
  time_ = time_ * kDecay + y;
  rows_rows_ = rows_rows_ * kDecay + x * x;
  rows_time_ = rows_time_ * kDecay + x * y;
}

sched::StepCost StepCostEstimate::Get() const {
  const double spread = weight_ * rows_rows_ - rows_ * rows_;
  if (weight_ < 2 || spread < 1e-6 * weight_ * weight_) return {};
  const double slope = (weight_ * rows_time_ - rows_ * time_) / spread;
  // Noise can tilt the line: a row that costs nothing would bound nothing, so all of the time is
  // then put on the rows.
  if (slope <= 0) return {.base_us = 0, .row_us = time_ / rows_};
  return {.base_us = std::max(0.0, (time_ - slope * rows_) / weight_), .row_us = slope};
}

}  // namespace slipstream::executor
