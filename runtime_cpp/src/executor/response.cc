#include "slipstream/response.h"

#include <iterator>
#include <utility>

namespace slipstream {
namespace {

template <class T>
void Concatenate(std::vector<T>* head, std::vector<T>* tail) {
  head->insert(head->end(), std::make_move_iterator(tail->begin()),
               std::make_move_iterator(tail->end()));
  *tail = std::move(*head);
}

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kTimeLimit:
      return "time_limit";
  }
  return "";
}

void Response::Join(Response later) {
  text += later.text;
  later.text = std::move(text);
  Concatenate(&token_ids, &later.token_ids);
  Concatenate(&logprobs, &later.logprobs);
  Concatenate(&prompt_logprobs, &later.prompt_logprobs);
  Concatenate(&logits, &later.logits);
  // Everything but the streams describes the request as it is now.
  *this = std::move(later);
}

}  // namespace slipstream
