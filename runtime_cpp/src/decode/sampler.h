// From one row of logits to one token: temperature, top-k, top-p, min-p, typical-p, draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/row_math.h"
#include "decode/candidates.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::decode {

/// Temperatures below this are greedy.
inline constexpr float kGreedyTemperature = 1e-5f;

/// The settings of one draw.
struct SampleOptions {
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  uint64_t position = 0;  ///< Absolute position of the token to be drawn.
  float typical_p = 1.0f;
};

/// The result depends on the logits and the options only. In order:
///
/// 1. Greedy (temperature < 1e-5): RowMath::argmax, ties to the lower id; the filters and the seed
/// have no part in it.
/// 2. Otherwise p[i] = exp(x[i] / T - max(x) / T) by RowMath::exp_shifted, in fixed point
/// (candidates.h): sums are exact integers, so no summation order enters the result. Where
/// max(x) / T is not a finite float, the answer is greedy.
/// 3. top_k keeps the k highest logits; top_p the shortest prefix of those, by descending logit,
/// that reaches top_p of what top_k left; min_p drops what is below min_p times the likeliest;
/// typical_p keeps what is closest to the entropy of what is left (KeepTypicalP). Ties go to the
/// lower id.
/// 4. The draw walks what is left by ascending id. Random bits: philox.h.
///
/// Holds scratch memory; one per thread.
class Sampler {
 public:
  explicit Sampler(const core::RowMath& math) : math_(math) {}

  /// Whether the row of the token at a position can be sampled from: kInternal, naming the position
  /// and the first bad id, when a logit is NaN or plus infinity, or when all are minus infinity.
  Status Check(std::span<const float> logits, uint64_t position) const {
    return Best(logits, position).status();
  }

  /// `logits` is the row without padding columns. Minus infinity excludes a token. The errors of
  /// Check.
  Result<TokenId> Sample(std::span<const float> logits, const SampleOptions& options);

 private:
  Result<TokenId> Best(std::span<const float> logits, uint64_t position) const;
  TokenId DrawToken(std::span<const float> logits, float max, const SampleOptions& options);

  const core::RowMath& math_;
  std::vector<float> probabilities_;
  std::vector<Candidate> candidates_;
};

}  // namespace slipstream::decode
