#include "executor/delivery.h"

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/resource_exhausted.h"

namespace slipstream::executor {
namespace {

Status CallbackThrew(RequestId id, std::string_view reason) noexcept {
  try {
    return Status(StatusCode::kInvalidArgument,
                  "The response callback of request " + std::to_string(id) +
                      " threw: " + std::string(reason) + ". Catch exceptions inside the callback.");
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory.");
  }
}

}  // namespace

bool Tell(RequestState* request) noexcept {
  const bool last = request->finished();
  Response news = request->TakeNews();
  Status failure;
  if (!request->callback) {
    if (request->mailbox->Post(std::move(news))) return true;
    failure = core::ResourceExhausted("No memory is left for the answer.");
  } else {
    try {
      request->callback(news);
      return true;
    } catch (const std::exception& error) {
      failure = CallbackThrew(request->id, error.what());
    } catch (...) {
      failure = CallbackThrew(request->id, "something that is no std::exception");
    }
  }
  if (last) return true;  // nothing follows a last response
  request->Finish(FinishReason::kError, std::move(failure));
  return false;
}

}  // namespace slipstream::executor
