#include "executor/mailbox.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/resource_exhausted.h"

namespace slipstream::executor {

void JoinResponse(Response delta, Response* sum) {
  sum->text += delta.text;
  sum->token_ids.insert(sum->token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  sum->logprobs.insert(sum->logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  // Everything but the three streams describes the request as it is now.
  delta.text = std::move(sum->text);
  delta.token_ids = std::move(sum->token_ids);
  delta.logprobs = std::move(sum->logprobs);
  *sum = std::move(delta);
}

bool Mailbox::Post(Response delta) noexcept {
  bool kept = true;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (finished_) return true;
    finished_ = delta.finished();
    try {
      JoinResponse(std::move(delta), &gathered_);
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
