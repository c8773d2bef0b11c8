#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/block_signals.h"
#include "core/fair_mutex.h"
#include "core/fp_env.h"
#include "core/futex.h"
#include "core/resource_exhausted.h"

namespace slipstream::core {
namespace {

constexpr int32_t kMaxThreads = 1024;

// Longer than the imbalance of a kernel's parts and than the serial code between two regions of a
// step, far shorter than a time slice: on a shared host a thread that waits for one that lost its
// core gives up its own core soon.
constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds{30};

// Index of this thread in the region that it runs.
thread_local int32_t region_index = 0;

/// The CPU that a thread was last seen on; alone on its cache line, since each thread writes its
/// own.
struct alignas(64) LastCpu {
  std::atomic<int32_t> value{-1};
};

}  // namespace

struct ThreadPool::Impl {
  int32_t threads = 1;
  std::vector<std::thread> workers;
  FairMutex run_mutex;  // One region at a time.

  // The region: written by Run before `region` changes, read by the workers after.
  void (*fn)(void*, int32_t, int32_t) = nullptr;
  void* ctx = nullptr;
  bool stop = false;

  WaitWord region;                              // Changes once per region.
  WaitWord done;                                // Changes when the last worker has left the region.
  alignas(64) std::atomic<int32_t> running{0};  // Workers still inside the region.

  WaitWord phase;  // Changes when the last thread arrives at the barrier.
  alignas(64) std::atomic<int32_t> arrived{0};

  std::vector<LastCpu> last_cpus;  // By index.

  /// How long thread `index` may spin. Busy hosts put two of our threads on one core; then the
  /// spinner keeps the very thread that it waits for from running, and must sleep at once. The last
  /// CPUs are a moment old, which costs at most one sleep or one spin too many.
  std::chrono::nanoseconds SpinTime(int32_t index) {
    const int32_t cpu = sched_getcpu();
    last_cpus[index].value.store(cpu, std::memory_order_relaxed);
    for (int32_t other = 0; other < threads; ++other) {
      if (other != index && last_cpus[other].value.load(std::memory_order_relaxed) == cpu) {
        return std::chrono::nanoseconds::zero();
      }
    }
    return kSpin;
  }

  void WorkerLoop(int32_t index) {
    uint32_t seen = 0;
    region_index = index;
    for (;;) {
      seen = region.Wait(seen, SpinTime(index));
      if (stop) return;
      {
        ScopedFpEnv fp_env;
        fn(ctx, index, threads);
      }
      // acq_rel: the last one out hands on what all workers wrote.
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) done.Store(seen);
    }
  }

  void StopWorkers() {
    stop = true;
    region.Store(region.Load() + 1);
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }
};

ThreadPool::ThreadPool() : impl_(std::make_unique<Impl>()) {}

ThreadPool::~ThreadPool() { impl_->StopWorkers(); }

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int32_t threads) {
  if (threads < 1 || threads > kMaxThreads) {
    return Status(StatusCode::kInvalidArgument, "threads is " + std::to_string(threads) +
                                                    "; it must be between 1 and " +
                                                    std::to_string(kMaxThreads) + ".");
  }
  const auto failure = [threads](int32_t index, std::string_view reason) {
    return ResourceExhausted("Thread ", std::to_string(index + 1), " of ", std::to_string(threads),
                             " cannot start: ", reason,
                             ". Use fewer threads, or raise the process limit (ulimit -u, the "
                             "container's pids limit).");
  };
  int32_t index = 0;
  try {
    std::unique_ptr<ThreadPool> pool(new ThreadPool());
    Impl* impl = pool->impl_.get();
    impl->threads = threads;
    impl->last_cpus = std::vector<LastCpu>(static_cast<size_t>(threads));
    impl->workers.reserve(static_cast<size_t>(threads - 1));
    ScopedBlockSignals block_signals;
    // When a later thread cannot start, the pool's destructor joins those that did.
    for (index = 1; index < threads; ++index) {
      impl->workers.emplace_back([impl, index] { impl->WorkerLoop(index); });
      char name[16];
      std::snprintf(name, sizeof(name), "slipstream-%d", static_cast<int>(index));
      pthread_setname_np(impl->workers.back().native_handle(), name);
    }
    return pool;
  } catch (const std::system_error& error) {
    return failure(index, error.what());
  } catch (const std::bad_alloc&) {
    return failure(index, "out of memory");
  }
}

int32_t ThreadPool::threads() const { return impl_->threads; }

void ThreadPool::Run(void (*fn)(void* ctx, int32_t index, int32_t threads), void* ctx) {
  Impl& impl = *impl_;
  std::lock_guard<FairMutex> lock(impl.run_mutex);
  if (impl.threads > 1) {
    impl.fn = fn;
    impl.ctx = ctx;
    impl.running.store(impl.threads - 1, std::memory_order_relaxed);
    impl.region.Store(impl.region.Load() + 1);
  }
  {
    ScopedFpEnv fp_env;
    // The caller may itself be a thread of another pool's region.
    const int32_t outer_index = std::exchange(region_index, 0);
    fn(ctx, 0, impl.threads);
    region_index = outer_index;
  }
  // `done` holds the number of the region that ended last, so it still differs from the current one
  // until all have left.
  if (impl.threads > 1) impl.done.Wait(impl.region.Load() - 1, impl.SpinTime(0));
}

void ThreadPool::Barrier() {
  Impl& impl = *impl_;
  if (impl.threads == 1) return;
  // Read before arriving: the phase cannot change until this thread has arrived.
  const uint32_t phase = impl.phase.Load();
  if (impl.arrived.fetch_add(1, std::memory_order_acq_rel) == impl.threads - 1) {
    // Reset before the phase changes: released threads may arrive at the next barrier at once.
    impl.arrived.store(0, std::memory_order_relaxed);
    impl.phase.Store(phase + 1);
  } else {
    impl.phase.Wait(phase, impl.SpinTime(region_index));
  }
}

}  // namespace slipstream::core
