// Value types that every part of the API shares.
#pragma once

#include <cstdint>

namespace slipstream {

/// Index into the model's vocabulary. Negative values are never valid ids.
using TokenId = int32_t;

/// Names one request inside one Executor; never reused by it. 0 is never a valid id.
using RequestId = uint64_t;

}  // namespace slipstream
