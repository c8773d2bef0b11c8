// A lock that is given first come, first served.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace slipstream::core {

/// A plain mutex would let a thread that releases it and wants it again at once shut the others
/// out.
class FairMutex {
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

}  // namespace slipstream::core
