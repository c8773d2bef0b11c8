// Checks of what callers hand in. Every message names the field, the value, the limit and the fix.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "slipstream/config.h"
#include "slipstream/engine.h"
#include "slipstream/request.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::executor {

/// Fills in the defaults of max_num_tokens and max_batch_size and returns the limits of this
/// executor. kLimitExceeded: above the engine's limit; kInvalidArgument: negative, or
/// max_queued_requests below 1.
Result<EngineLimits> ResolveLimits(const ExecutorConfig& config, const EngineLimits& engine);

/// Every field of a request that can be judged without tokenizing. `has_tokenizer`: text prompts
/// and stop strings can be served.
Status ValidateRequest(const Request& request, int32_t vocab_size, bool has_tokenizer);

/// n and best_of; kLimitExceeded where so many sequences cannot run at once.
Status ValidateAnswers(const SamplingParams& sampling, int32_t max_batch_size);

/// kInvalidArgument when it is longer than 256 bytes.
Status ValidateSalt(std::string_view cache_salt);

/// kInvalidArgument with the index of the first id outside the vocabulary. `what` names the field.
Status ValidateTokenIds(std::span<const TokenId> ids, int32_t vocab_size, const char* what);

}  // namespace slipstream::executor
