// Fixed pool of worker threads for the kernels of a step: bounded spin, then futex; no OpenMP.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "slipstream/status.h"

namespace slipstream::core {

/// Runs one parallel region at a time. Run may be called from any thread; concurrent calls take
/// turns, first come, first served.
class ThreadPool {
 public:
  /// `threads` counts the calling thread: threads - 1 workers are started. Errors: kInvalidArgument
  /// (threads out of 1..1024), kResourceExhausted (a thread cannot start).
  static Result<std::unique_ptr<ThreadPool>> Create(int32_t threads);
  ~ThreadPool();

  int32_t threads() const;

  /// Calls fn(ctx, index, threads) once for each index in [0, threads) and returns when all have
  /// returned. Allocates nothing. fn must not throw and must not call Run of the same pool. Workers
  /// and the caller run with the contract's floating-point environment (see fp_env.h).
  void Run(void (*fn)(void* ctx, int32_t index, int32_t threads), void* ctx);

  /// Blocks inside fn until every thread of the current region arrived. Only valid inside Run.
  void Barrier();

  template <class F>
  void ParallelFor(F&& fn) {
    Run([](void* ctx, int32_t index,
           int32_t threads) { (*static_cast<std::remove_reference_t<F>*>(ctx))(index, threads); },
        &fn);
  }

 private:
  ThreadPool();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream::core
