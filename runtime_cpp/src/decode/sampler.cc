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

Result<TokenId> Sampler::Best(std::span<const float> logits, uint64_t position) const {
  // One pass without an early exit, which the compiler can vectorize; the bad id is looked for only
  // when there is one.
  bool usable = true;
  for (const float logit : logits) usable &= Usable(logit);
  if (!usable) {
    size_t id = 0;
    while (Usable(logits[id])) ++id;
    return BadLogits(position, std::string(std::isnan(logits[id]) ? "hold NaN" : "hold +infinity") +
                                   " at id " + std::to_string(id));
  }
  const TokenId best = math_.argmax(logits.data(), static_cast<int32_t>(logits.size()));
  if (std::isinf(logits[best])) return BadLogits(position, "are all -infinity");
  return best;
}

Result<TokenId> Sampler::Sample(std::span<const float> logits, const SampleOptions& options) {
  const Result<TokenId> best = Best(logits, options.position);
  if (!best.ok() || options.temperature < kGreedyTemperature) return best;
  return DrawToken(logits, logits[*best], options);
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
  KeepTypicalP(options.typical_p, scale, shift, &candidates_);
  return Draw(RandomBits(options.seed, options.position, RandomPurpose::kSampleToken),
              &candidates_);
}

}  // namespace slipstream::decode
