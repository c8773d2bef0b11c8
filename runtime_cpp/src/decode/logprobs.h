// Log-probabilities of a row of raw logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/row_math.h"
#include "slipstream/response.h"
#include "slipstream/types.h"

namespace slipstream::decode {

/// x[id] - log_sum_exp(x) (docs/design/numerics.md) of `id` and of the `top` likeliest tokens,
/// equal logits by the lower id. `logits` is usable (Sampler::Check) and without padding columns.
TokenLogprobs ScoreToken(const core::RowMath& math, std::span<const float> logits, TokenId id,
                         int32_t top);

}  // namespace slipstream::decode
