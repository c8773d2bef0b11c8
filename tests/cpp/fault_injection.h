// Makes the system fail on purpose: memory allocations, system calls of the loader and starts of
// threads. A test that uses it is listed with slipstream_fault_test, which routes these through
// here.
#pragma once

#include <cstdint>

namespace slipstream::fault {

enum class Point : int {
  kAllocate = 0,     ///< operator new, all forms, in every thread.
  kOpen = 1,         ///< open
  kStat = 2,         ///< fstat
  kMap = 3,          ///< mmap
  kAdvise = 4,       ///< madvise
  kStartThread = 5,  ///< pthread_create
};

/// While it lives, calls of `point` number `first` and later fail: only `count` of them, or all
/// with kForever. Calls are counted from 0 and over all threads. One at a time in a process.
class Inject {
 public:
  static constexpr int64_t kForever = INT64_MAX;
  /// `error` is the errno that a failing system call gives (the return value of pthread_create).
  Inject(Point point, int64_t first, int64_t count = 1, int error = 0);
  ~Inject();
  Inject(const Inject&) = delete;
  Inject& operator=(const Inject&) = delete;

  /// Whether a call has failed.
  bool hit() const;
};

/// Calls of `point` since the process began.
int64_t Calls(Point point);

/// Calls of `point` while `work` runs: a fault at that number or later is never reached.
template <class F>
int64_t CountCalls(Point point, F&& work) {
  const int64_t begin = Calls(point);
  work();
  return Calls(point) - begin;
}

}  // namespace slipstream::fault
