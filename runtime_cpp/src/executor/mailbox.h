// Keeps the news of one request until its client asks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "slipstream/response.h"

namespace slipstream::executor {

/// Holds at most one response of each answer, into which deltas are joined: a client that never
/// reads costs no more than the answers themselves. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(int32_t answers = 1) : news_(answers) {}

  /// False where memory ran out: then the client gets kError, and what is posted later is dropped.
  bool Post(Response delta) noexcept;
  /// Waits until there is news and takes it, of one answer; of several that have news in turn. On
  /// timeout an empty response with kNone; nothing when
  /// the last response was taken before.
  std::optional<Response> Take(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  bool finished_ = false;                      // the last response was posted
  std::vector<std::optional<Response>> news_;  // by answer
  size_t turn_ = 0;                            // the answer that Take looks at first
};

}  // namespace slipstream::executor
