#include "executor/family.h"

#include <iterator>
#include <new>
#include <utility>

#include "core/resource_exhausted.h"
#include "executor/request_state.h"

namespace slipstream::executor {
namespace {

// Whole answers first, then those that were cut, then errors; the likelier of equals.
int Completeness(const RequestState& answer) {
  switch (answer.finish_reason()) {
    case FinishReason::kError:
      return 0;
    case FinishReason::kCancelled:
    case FinishReason::kTimeLimit:
      return 1;
    default:
      return 2;
  }
}

bool Better(const std::unique_ptr<RequestState>& a, const std::unique_ptr<RequestState>& b) {
  const int of_a = Completeness(*a), of_b = Completeness(*b);
  if (of_a != of_b) return of_a > of_b;
  if (a->cumulative_logprob() != b->cumulative_logprob())
    return a->cumulative_logprob() > b->cumulative_logprob();
  return a->index < b->index;
}

Status CopyOf(const Status& status) noexcept {
  try {
    return status;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory.");
  }
}

}  // namespace

void EndSiblings(RequestState* leader, Requests* to) noexcept {
  for (const auto& sibling : leader->siblings)
    sibling->Finish(leader->finish_reason(), CopyOf(leader->status()));
  to->splice(to->end(), leader->siblings);
}

bool Settle(Requests* from, Requests::iterator answer, Requests* told, Requests* dropped) noexcept {
  const std::shared_ptr<Family> family = (*answer)->family;
  const bool over = family == nullptr || --family->unfinished == 0;
  if (family == nullptr || !family->ranked) {
    (*answer)->last = over;
    told->splice(told->end(), *from, answer);
    return over;
  }
  Requests& ended = family->ended;
  ended.splice(ended.end(), *from, answer);
  if (!over) return false;
  ended.sort(Better);
  const auto first_dropped = std::next(ended.begin(), family->wanted);
  dropped->splice(dropped->end(), ended, first_dropped, ended.end());
  int32_t index = 0;
  for (const auto& best : ended) best->index = index++;
  ended.back()->last = true;
  told->splice(told->end(), ended);
  return true;
}

}  // namespace slipstream::executor
