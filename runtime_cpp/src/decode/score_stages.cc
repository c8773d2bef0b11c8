#include "decode/score_stages.h"

namespace slipstream::decode {

void LogitBias::Apply(const SequenceView&, std::span<float> logits) const {
  for (const auto& [id, bias] : bias_) logits[id] += bias;
}

void RepetitionPenalty::Apply(const SequenceView& sequence, std::span<float> logits) const {
  for (const TokenCounts::Entry& entry : sequence.counts.entries()) {
    float& logit = logits[entry.id];
    logit = logit < 0.0f ? logit * penalty_ : logit / penalty_;
  }
}

void OccurrencePenalties::Apply(const SequenceView& sequence, std::span<float> logits) const {
  for (const TokenCounts::Entry& entry : sequence.counts.entries()) {
    if (entry.generated == 0) continue;
    float& logit = logits[entry.id];
    logit -= frequency_ * static_cast<float>(entry.generated);
    logit -= presence_;
  }
}

}  // namespace slipstream::decode
