// Brings the news of a request to its client.
#pragma once

#include "executor/request_state.h"

namespace slipstream::executor {

/// Tells the news since the last call to the request's callback or mailbox. False when that failed
/// and thereby ended a request that was still going: its end is then to be told, too.
bool Tell(RequestState* request) noexcept;

}  // namespace slipstream::executor
