// Stages that change the logits of some tokens: bias and penalties.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "decode/logits_stage.h"

namespace slipstream::decode {

/// x + bias for each id that has one.
class LogitBias final : public LogitsStage {
 public:
  explicit LogitBias(const std::map<TokenId, float>& bias) : bias_(bias.begin(), bias.end()) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;

 private:
  std::vector<std::pair<TokenId, float>> bias_;
};

/// x * penalty below 0, else x / penalty, for each token of prompt and answer: Keskar et al.,
/// "CTRL: A conditional transformer language model for controllable generation" (2019), section
/// 4.1, with the sign rule of Hugging Face.
class RepetitionPenalty final : public LogitsStage {
 public:
  explicit RepetitionPenalty(float penalty) : penalty_(penalty) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;
  bool uses_counts() const override { return true; }

 private:
  float penalty_;
};

/// x - frequency * count - presence for each token that was generated, as the OpenAI API defines
/// them. The two subtractions are rounded one after the other.
class OccurrencePenalties final : public LogitsStage {
 public:
  OccurrencePenalties(float frequency, float presence)
      : frequency_(frequency), presence_(presence) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;
  bool uses_counts() const override { return true; }

 private:
  float frequency_;
  float presence_;
};

}  // namespace slipstream::decode
