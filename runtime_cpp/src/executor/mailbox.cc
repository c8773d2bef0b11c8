#include "executor/mailbox.h"

#include <algorithm>
#include <utility>

namespace slipstream::executor {

void JoinResponse(Response delta, Response* sum) {
  Response joined = std::move(*sum);
  joined.text += delta.text;
  joined.token_ids.insert(joined.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  joined.logprobs.insert(joined.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  // Everything but the three streams describes the request as it is now.
  delta.text = std::move(joined.text);
  delta.token_ids = std::move(joined.token_ids);
  delta.logprobs = std::move(joined.logprobs);
  *sum = std::move(delta);
}

void Mailbox::Post(Response delta) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    finished_ = delta.finished();
    JoinResponse(std::move(delta), &gathered_);
    has_news_ = true;
  }
  posted_.notify_all();
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
