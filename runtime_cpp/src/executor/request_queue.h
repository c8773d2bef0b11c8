// The requests that wait, in the order in which they are to start.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "executor/family.h"
#include "executor/request_state.h"
#include "slipstream/status.h"

namespace slipstream::executor {

/// The answer where memory ran out before a request was queued.
Status NoMemoryToQueue() noexcept;

/// Bounds of the queue; 0: none.
struct QueueLimits {
  int64_t requests = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;
};

/// Ordered by sched::ServedBefore, best first. Not thread-safe: the loop's mutex guards it. Only
/// Admits may allocate.
class RequestQueue {
 public:
  /// Levels rise by one for every `ageing_us` that a request has waited; 0: never.
  RequestQueue(const QueueLimits& limits, int64_t ageing_us)
      : limits_(limits), ageing_us_(ageing_us) {}

  /// kResourceExhausted, naming the limit, when one more request does not fit.
  Status Admits(const RequestState& request) const;

  /// Takes the first element of `from` to its place. Bounds are not checked: a preempted request
  /// always finds room.
  void Insert(Requests* from, Requests::iterator request, int64_t now_us);
  /// Gives the request to the end of `to`.
  void Take(Requests::iterator request, Requests* to);

  /// Raises the levels of those that have waited long enough, and restores the order. Does so at
  /// most 64 times in an ageing interval.
  void Age(int64_t now_us);

  Requests::iterator begin() { return waiting_.begin(); }
  Requests::iterator end() { return waiting_.end(); }
  bool empty() const { return waiting_.empty(); }
  int64_t size() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  const QueueLimits limits_;
  const int64_t ageing_us_;
  Requests waiting_;
  int64_t tokens_ = 0;  // of a prompt once, however many answers wait for it
  int64_t bytes_ = 0;
  int64_t next_ageing_us_ = sched::kNoDeadline;
};

}  // namespace slipstream::executor
