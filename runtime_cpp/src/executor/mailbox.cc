#include "executor/mailbox.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/resource_exhausted.h"

namespace slipstream::executor {

bool Mailbox::Post(Response delta) noexcept {
  bool kept = true;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (finished_) return true;
    finished_ = delta.finished();
    try {
      gathered_.Join(std::move(delta));
    } catch (const std::bad_alloc&) {
      kept = false;
      finished_ = true;
      gathered_.finish_reason = FinishReason::kError;
      gathered_.status = core::ResourceExhausted(
          "No memory is left for the answer. Lower max_tokens or free memory.");
    }
    has_news_ = true;
  }
  posted_.notify_all();
  return kept;
}

std::optional<Response> Mailbox::Take(std::chrono::milliseconds timeout) {
  // Some standard libraries overflow on a wait that ends beyond their clock.
  timeout = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0),
                                                  std::chrono::hours(24 * 3650));
  std::unique_lock<std::mutex> guard(mutex_);
  posted_.wait_for(guard, timeout, [this] { return has_news_ || finished_; });
  if (!has_news_ && finished_) return std::nullopt;
  has_news_ = false;
  return std::exchange(gathered_, Response());
}

}  // namespace slipstream::executor
