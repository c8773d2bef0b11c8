// Work that other threads have done between two steps.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "executor/batcher.h"
#include "executor/step_runner.h"
#include "slipstream/status.h"

namespace slipstream::executor {

using BorderWork = std::function<Status(Batcher&, StepRunner&)>;

/// Thread-safe.
class BorderCalls {
 public:
  /// Queues `work`, calls `wake`, and waits until the loop has done it: its status. kUnavailable
  /// once closed. Throws std::bad_alloc where it cannot be queued.
  Status Call(const BorderWork& work, const std::function<void()>& wake);

  // For the loop, while no step is in flight.
  bool waiting() const;
  /// Does what is queued; what throws has the status of FromException.
  void Run(Batcher& batcher, StepRunner& runner) noexcept;
  /// Refuses what is queued and all that comes.
  void Close() noexcept;

 private:
  struct Pending {  // on the stack of who waits
    const BorderWork& work;
    Status status;
    bool done = false;
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Pending*> pending_;
  bool closed_ = false;
};

}  // namespace slipstream::executor
