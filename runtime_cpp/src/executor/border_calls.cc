#include "executor/border_calls.h"

#include <exception>
#include <utility>

namespace slipstream::executor {

Status BorderCalls::Call(const BorderWork& work, const std::function<void()>& wake) {
  Pending pending{.work = work, .status = Status::Ok()};
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (closed_) return ShutDown();
    pending_.push_back(&pending);
  }
  wake();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return pending.done; });
  return std::move(pending.status);
}

bool BorderCalls::waiting() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return !pending_.empty();
}

void BorderCalls::Run(Batcher& batcher, StepRunner& runner) noexcept {
  std::vector<Pending*> pending;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    pending.swap(pending_);
  }
  for (Pending* call : pending) {
    try {
      call->status = call->work(batcher, runner);
    } catch (const std::exception& error) {
      call->status = FromException(error);
    }
  }
  std::lock_guard<std::mutex> guard(mutex_);
  for (Pending* call : pending) call->done = true;
  changed_.notify_all();
}

void BorderCalls::Close() noexcept {
  std::lock_guard<std::mutex> guard(mutex_);
  closed_ = true;
  for (Pending* call : pending_) {
    call->status = ShutDown();
    call->done = true;
  }
  pending_.clear();
  changed_.notify_all();
}

}  // namespace slipstream::executor
