// JSON that callers give, as values of a template.
#pragma once

#include <string_view>

#include "slipstream/status.h"
#include "text/chat/value.h"

namespace slipstream::text::chat {

/// `what` names the text in messages. Errors: kInvalidArgument (syntax, a repeated key),
/// kLimitExceeded (nested too deep), kIncompatible (an integer beyond 64 bits).
Result<Value> ReadJson(std::string_view json, std::string_view what);

}  // namespace slipstream::text::chat
