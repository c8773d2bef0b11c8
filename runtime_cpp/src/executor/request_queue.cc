#include "executor/request_queue.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/resource_exhausted.h"

namespace slipstream::executor {
namespace {

// Looking at the whole queue for each request that rises would cost every step its length: they
// rise together, late by at most this part of the interval.
constexpr int64_t kLooksPerInterval = 64;

Status Full(const char* what, int64_t waiting, int64_t more, const char* limit_name,
            int64_t limit) {
  return Status(StatusCode::kResourceExhausted,
                "The queue is full: waiting requests hold " + std::to_string(waiting) + " " + what +
                    ", this one has " + std::to_string(more) + ", " + limit_name + " is " +
                    std::to_string(limit) + ". Submit again later or raise " + limit_name + ".");
}

int64_t HeldBytes(const RequestState& request) {
  int64_t bytes = request.place.held_bytes;
  for (const auto& sibling : request.siblings) bytes += sibling->place.held_bytes;
  return bytes;
}

}  // namespace

Status NoMemoryToQueue() noexcept {
  return core::ResourceExhausted("No memory is left to queue the request. Submit again later.");
}

Status RequestQueue::Admits(const RequestState& request) const {
  if (limits_.requests > 0 && size() >= limits_.requests) {
    return Status(StatusCode::kResourceExhausted,
                  "The queue is full: " + std::to_string(size()) +
                      " requests wait, max_queued_requests is " + std::to_string(limits_.requests) +
                      ". Submit again later or raise max_queued_requests.");
  }
  // An empty queue takes any request: a limit below one request would refuse it for ever.
  if (waiting_.empty()) return Status::Ok();
  if (limits_.tokens > 0 && tokens_ + request.prompt_tokens() > limits_.tokens) {
    return Full("prompt tokens", tokens_, request.prompt_tokens(), "max_queued_tokens",
                limits_.tokens);
  }
  if (limits_.bytes > 0 && bytes_ + HeldBytes(request) > limits_.bytes) {
    return Full("bytes", bytes_, HeldBytes(request), "max_queued_bytes", limits_.bytes);
  }
  return Status::Ok();
}

void RequestQueue::Insert(Requests* from, Requests::iterator request, int64_t now_us) {
  Placement& place = (*request)->place;
  place.queued_us = now_us;
  place.rank.level = place.rank.priority;
  if (ageing_us_ > 0) next_ageing_us_ = std::min(next_ageing_us_, now_us + ageing_us_);
  // Most requests are the last in line: look for the place from the end.
  auto position = waiting_.end();
  while (position != waiting_.begin() &&
         sched::ServedBefore(place.rank, (*std::prev(position))->place.rank)) {
    --position;
  }
  tokens_ += (*request)->prompt_tokens();
  bytes_ += HeldBytes(**request);
  waiting_.splice(position, *from, request);
}

void RequestQueue::Take(Requests::iterator request, Requests* to) {
  tokens_ -= (*request)->prompt_tokens();
  bytes_ -= HeldBytes(**request);
  to->splice(to->end(), waiting_, request);
}

void RequestQueue::Age(int64_t now_us) {
  if (now_us < next_ageing_us_) return;
  next_ageing_us_ = sched::kNoDeadline;
  for (const auto& request : waiting_) {
    Placement& place = request->place;
    const int64_t waited = now_us - place.queued_us;
    place.rank.level = sched::AgedLevel(place.rank.priority, waited, ageing_us_);
    next_ageing_us_ =
        std::min(next_ageing_us_, place.queued_us + (waited / ageing_us_ + 1) * ageing_us_);
  }
  next_ageing_us_ = std::max(next_ageing_us_, now_us + ageing_us_ / kLooksPerInterval);
  waiting_.sort([](const auto& a, const auto& b) {
    return sched::ServedBefore(a->place.rank, b->place.rank);
  });
}

}  // namespace slipstream::executor
