// Keeps the news of one request until its client asks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "slipstream/response.h"

namespace slipstream::executor {

/// Holds at most one response, into which deltas are joined: a client that never reads costs no
/// more than the answer itself. Thread-safe.
class Mailbox {
 public:
  /// False where memory ran out: then the client gets kError, and what is posted later is dropped.
  bool Post(Response delta) noexcept;
  /// Waits until there is news and takes it. On timeout an empty response with kNone; nothing when
  /// the last response was taken before.
  std::optional<Response> Take(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  bool has_news_ = false;
  bool finished_ = false;  // the last response was posted
  Response gathered_;
};

}  // namespace slipstream::executor
