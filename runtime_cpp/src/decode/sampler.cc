#include "decode/sampler.h"

#include <cmath>
#include <limits>
#include <string>

#include "decode/philox.h"

namespace slipstream::decode {
namespace {

Status BadLogits(uint64_t position, const std::string& what) {
  return Status(StatusCode::kInternal,
                "The model's logits for the token at position " + std::to_string(position) + " " +
                    what +
                    ", so no token can be drawn. The weights may be damaged: run "
                    "'slipstream inspect FILE --verify full'.");
}

// Finite or minus infinity.
bool Usable(float logit) { return logit < std::numeric_limits<float>::infinity(); }

}  // namespace

Result<SampledToken> Sampler::Sample(std::span<const float> logits, const SampleOptions& options) {
  // One pass without an early exit, which the compiler can vectorize; the bad id is looked for only
  // when there is one.
  bool usable = true;
  for (const float logit : logits) usable &= Usable(logit);
  if (!usable) {
    size_t id = 0;
    while (Usable(logits[id])) ++id;
    return BadLogits(options.position,
                     std::string(std::isnan(logits[id]) ? "hold NaN" : "hold +infinity") +
                         " at id " + std::to_string(id));
  }
  const int32_t size = static_cast<int32_t>(logits.size());
  const TokenId best = math_.argmax(logits.data(), size);
  if (std::isinf(logits[best])) return BadLogits(options.position, "are all -infinity");

  SampledToken token;
  token.id =
      options.temperature < kGreedyTemperature ? best : DrawToken(logits, logits[best], options);
  if (options.logprob) token.logprob = logits[token.id] - math_.log_sum_exp(logits.data(), size);
  return token;
}

TokenId Sampler::DrawToken(std::span<const float> logits, float max, const SampleOptions& options) {
  const int32_t size = static_cast<int32_t>(logits.size());
  const float scale = 1.0f / options.temperature;
  const float shift = max * scale;
  // Logits beyond 1e33 over a tiny temperature: the limit is greedy.
  if (!std::isfinite(shift)) return math_.argmax(logits.data(), size);
  probabilities_.resize(logits.size());
  math_.exp_shifted(logits.data(), scale, shift, probabilities_.data(), size);
  candidates_.clear();
  for (int32_t id = 0; id < size; ++id) {
    // A weight of 0 can neither be drawn nor move a threshold.
    const Weight weight = ToWeight(probabilities_[id]);
    if (weight > 0) candidates_.push_back({logits[id], id, weight});
  }
  KeepTopK(options.top_k, &candidates_);
  KeepTopP(options.top_p, &candidates_);
  KeepMinP(options.min_p, &candidates_);
  return Draw(RandomBits(options.seed, options.position, RandomPurpose::kSampleToken),
              &candidates_);
}

}  // namespace slipstream::decode
