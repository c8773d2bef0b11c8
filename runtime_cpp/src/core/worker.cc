#include "core/worker.h"

#include <pthread.h>

#include <chrono>
#include <system_error>

#include "core/block_signals.h"
#include "core/resource_exhausted.h"

namespace slipstream::core {
namespace {

// Both sides sleep at once: the cores belong to the kernels.
constexpr std::chrono::nanoseconds kNoSpin{0};

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Create() {
  try {
    std::unique_ptr<Worker> worker(new Worker());
    const ScopedBlockSignals block_signals;
    worker->thread_ = std::thread([self = worker.get()] { self->Loop(); });
    pthread_setname_np(worker->thread_.native_handle(), "slipstream-step");
    return worker;
  } catch (const std::system_error& error) {
    return ResourceExhausted("The thread that runs steps cannot start: ", error.what(),
                             ". Raise the process limit (ulimit -u, the container's pids limit).");
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("Not enough memory for the thread that runs steps.");
  }
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  Start(nullptr, nullptr);
  thread_.join();
}

void Worker::Start(void (*fn)(void*), void* ctx) {
  Wait();
  fn_ = fn;
  ctx_ = ctx;
  started_.Store(started_.Load() + 1);
}

void Worker::Wait() {
  const uint32_t started = started_.Load();
  for (uint32_t done = done_.Load(); done != started;) done = done_.Wait(done, kNoSpin);
}

void Worker::Loop() {
  for (uint32_t seen = 0;;) {
    seen = started_.Wait(seen, kNoSpin);
    if (fn_ == nullptr) return;
    fn_(ctx_);
    done_.Store(seen);
  }
}

}  // namespace slipstream::core
