// What the settings of a request do to its logits before a token is chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/logits_stage.h"
#include "slipstream/sampling.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::decode {

/// Belongs to one request and grows with it; steps 1 to 3 of SamplingParams. Not thread-safe.
class LogitsPipeline {
 public:
  /// Null when the settings leave every row as it is. The settings are valid and bad_words is
  /// resolved into bad_words_ids; `end_ids` are the ids that end generation; `own` come last.
  static std::unique_ptr<LogitsPipeline> Make(const SamplingParams& sampling,
                                              const std::vector<TokenId>& end_ids,
                                              std::vector<LogitsProcessor> own);

  /// Changes `logits`, the usable raw row (Sampler::Check) of the token that follows `tokens`, of
  /// which the first `prompt_tokens` are the prompt. `tokens` must begin with those of the last
  /// call. kInvalidArgument when bias and penalties leave the range of floats, when a processor of
  /// the caller throws or leaves a value that is NaN or plus infinity, or when every token is
  /// excluded; the row is then of no use.
  Status Apply(std::span<const TokenId> tokens, int32_t prompt_tokens, std::span<float> logits);

 private:
  LogitsPipeline() = default;

  std::vector<std::unique_ptr<const LogitsStage>> stages_;
  std::vector<LogitsProcessor> own_;
  bool uses_counts_ = false;
  TokenCounts counts_;
};

}  // namespace slipstream::decode
