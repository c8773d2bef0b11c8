// The latest steps, for statistics and traces.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "slipstream/stats.h"

namespace slipstream::executor {

/// A ring of the latest steps. Its memory is taken as steps come and then reused. Thread-safe.
class IterationLog {
 public:
  explicit IterationLog(int32_t capacity) : capacity_(capacity) {}

  bool enabled() const { return capacity_ > 0; }
  /// Keeps `*iteration`, unless memory runs out, and leaves an old one in its place, whose memory
  /// the caller may reuse.
  void Add(Iteration* iteration) noexcept;
  /// Those whose number is above `after_step`, oldest first.
  std::vector<Iteration> After(int64_t after_step) const;

 private:
  const int32_t capacity_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<Iteration> ring_;
  size_t next_ = 0;  // the oldest, once the ring is full
};

}  // namespace slipstream::executor
