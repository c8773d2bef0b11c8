// A thread that does one thing at a time for its owner, who goes on meanwhile.
#pragma once

#include <memory>
#include <thread>

#include "core/futex.h"
#include "slipstream/status.h"

namespace slipstream::core {

/// Start and Wait come from one thread at a time. Sleeps while it has nothing to do.
class Worker {
 public:
  /// kResourceExhausted when its thread cannot start.
  static Result<std::unique_ptr<Worker>> Create();
  /// Waits for what it does.
  ~Worker();

  /// Has fn(ctx) called on the worker's thread. fn must not throw; what was started before is
  /// waited for.
  void Start(void (*fn)(void* ctx), void* ctx);
  /// Waits until what was started has returned; sees all that it wrote.
  void Wait();

 private:
  Worker() = default;
  void Loop();

  WaitWord started_;  // Counts the calls of Start.
  WaitWord done_;     // Follows it.
  // Written before started_ changes, read after.
  void (*fn_)(void*) = nullptr;
  void* ctx_ = nullptr;
  std::thread thread_;
};

}  // namespace slipstream::core
