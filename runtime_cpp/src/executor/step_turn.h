// Lets the steps of several executors take turns on one Runtime, first come, first served.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace slipstream::executor {

/// A fair lock. A plain mutex would let a loop that releases it and wants it again at once shut the
/// others out.
class StepTurn {
 public:
  void lock() {
    std::unique_lock<std::mutex> guard(mutex_);
    const uint64_t ticket = next_ticket_++;
    changed_.wait(guard, [&] { return ticket == serving_; });
  }

  void unlock() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      ++serving_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
};

}  // namespace slipstream::executor
