// A stage of the logits pipeline: changes one row of logits by what its sequence holds.
#pragma once

#include <cstdint>
#include <span>

#include "decode/token_counts.h"
#include "slipstream/types.h"

namespace slipstream::decode {

/// What a stage may look at.
struct SequenceView {
  std::span<const TokenId> tokens;  ///< Prompt and answer so far.
  int32_t prompt_tokens = 0;
  const TokenCounts& counts;  ///< Of `tokens`; empty where no stage uses them.

  int32_t generated() const { return static_cast<int32_t>(tokens.size()) - prompt_tokens; }
};

/// Immutable; belongs to one request. Ids that it was made with are ids of the row.
class LogitsStage {
 public:
  virtual ~LogitsStage() = default;
  /// `logits` holds the whole vocabulary; minus infinity excludes a token.
  virtual void Apply(const SequenceView& sequence, std::span<float> logits) const = 0;
  /// True when Apply reads SequenceView::counts.
  virtual bool uses_counts() const { return false; }
};

}  // namespace slipstream::decode
