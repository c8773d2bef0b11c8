// From what a caller asks to what the loop runs.
#pragma once

#include <memory>

#include "executor/loop.h"
#include "executor/request_state.h"
#include "slipstream/executor.h"
#include "slipstream/request.h"
#include "slipstream/status.h"

namespace slipstream::executor {

/// Checks and tokenizes a request; the first of its answers holds the others. It has no id yet.
/// Errors as Executor::Submit. `facts` must outlive what is made. Throws std::bad_alloc.
Result<std::unique_ptr<RequestState>> MakeRequest(const ModelFacts& facts, const EngineLoop& loop,
                                                  Request request, ResponseCallback callback);

}  // namespace slipstream::executor
