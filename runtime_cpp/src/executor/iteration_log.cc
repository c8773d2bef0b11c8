#include "executor/iteration_log.h"

#include <new>
#include <utility>

namespace slipstream::executor {

void IterationLog::Add(Iteration* iteration) noexcept {
  std::lock_guard<std::mutex> guard(mutex_);
  if (ring_.size() < static_cast<size_t>(capacity_)) {
    try {
      ring_.push_back(std::move(*iteration));
    } catch (const std::bad_alloc&) {  // the step is not kept
    }
    *iteration = Iteration();
    return;
  }
  std::swap(ring_[next_], *iteration);
  next_ = (next_ + 1) % ring_.size();
}

std::vector<Iteration> IterationLog::After(int64_t after_step) const {
  std::lock_guard<std::mutex> guard(mutex_);
  std::vector<Iteration> found;
  for (size_t i = 0; i < ring_.size(); ++i) {
    const Iteration& iteration = ring_[(next_ + i) % ring_.size()];
    if (iteration.step > after_step) found.push_back(iteration);
  }
  return found;
}

}  // namespace slipstream::executor
