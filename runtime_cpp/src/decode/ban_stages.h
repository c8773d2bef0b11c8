// Stages that exclude tokens: n-grams that would repeat, bad words, ends that come too early, and
// what is not on a list.
#pragma once

#include <vector>

#include "decode/logits_stage.h"

namespace slipstream::decode {

/// Excludes each token that would complete an n-gram which prompt and answer already hold.
class NoRepeatNgram final : public LogitsStage {
 public:
  /// `size` is at least 1.
  explicit NoRepeatNgram(int32_t size) : size_(size) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;

 private:
  int32_t size_;
};

/// Excludes the last token of each sequence whose other tokens prompt and answer end with.
class BadWords final : public LogitsStage {
 public:
  /// None of the sequences is empty.
  explicit BadWords(std::vector<std::vector<TokenId>> sequences)
      : sequences_(std::move(sequences)) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;

 private:
  std::vector<std::vector<TokenId>> sequences_;
};

/// Excludes the ids that end generation until `count` tokens are generated.
class MinTokens final : public LogitsStage {
 public:
  MinTokens(int32_t count, std::vector<TokenId> end_ids)
      : count_(count), end_ids_(std::move(end_ids)) {}
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;

 private:
  int32_t count_;
  std::vector<TokenId> end_ids_;
};

/// Excludes every token that is not listed.
class AllowedTokens final : public LogitsStage {
 public:
  /// Any order; ids may be listed twice.
  explicit AllowedTokens(std::vector<TokenId> ids);
  void Apply(const SequenceView& sequence, std::span<float> logits) const override;

 private:
  std::vector<TokenId> ids_;  // ascending, each once
};

}  // namespace slipstream::decode
