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
    finished_ = delta.last;
    std::optional<Response>& gathered = news_[delta.index];
    if (!gathered) gathered.emplace();
    try {
      gathered->Join(std::move(delta));
    } catch (const std::bad_alloc&) {
      kept = false;
      finished_ = true;
      gathered->finish_reason = FinishReason::kError;
      gathered->status = core::ResourceExhausted(
          "No memory is left for the answer. Lower max_tokens or free memory.");
    }
  }
  posted_.notify_all();
  return kept;
}

std::optional<Response> Mailbox::Take(std::chrono::milliseconds timeout) {
  // Some standard libraries overflow on a wait that ends beyond their clock.
  timeout = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0),
                                                  std::chrono::hours(24 * 3650));
  std::unique_lock<std::mutex> guard(mutex_);
  const auto full = [this] {
    return std::count_if(news_.begin(), news_.end(), [](const auto& n) { return n.has_value(); });
  };
  posted_.wait_for(guard, timeout, [&] { return full() > 0 || finished_; });
  const auto answers = static_cast<size_t>(full());
  if (answers == 0) return finished_ ? std::nullopt : std::optional<Response>(Response());
  while (!news_[turn_]) turn_ = (turn_ + 1) % news_.size();
  std::optional<Response> taken = std::exchange(news_[turn_], std::nullopt);
  turn_ = (turn_ + 1) % news_.size();
  // Of the answers whose end was posted, the one that is taken last ends the request.
  taken->last = finished_ && answers == 1;
  return taken;
}

}  // namespace slipstream::executor
