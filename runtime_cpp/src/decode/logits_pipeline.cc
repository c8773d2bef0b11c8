#include "decode/logits_pipeline.h"

#include <cmath>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "decode/ban_stages.h"
#include "decode/score_stages.h"

namespace slipstream::decode {
namespace {

Status ProcessorFailed(size_t index, const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                "logits_processors[" + std::to_string(index) + "] " + what);
}

Status Run(const LogitsProcessor& processor, size_t index, std::span<const TokenId> tokens,
           std::span<float> logits) {
  try {
    processor(tokens, logits);
  } catch (const std::exception& error) {
    return ProcessorFailed(
        index, std::string("threw: ") + error.what() + ". Catch exceptions inside the processor.");
  } catch (...) {
    return ProcessorFailed(index,
                           "threw something that is no std::exception. Catch exceptions inside "
                           "the processor.");
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] < std::numeric_limits<float>::infinity()) continue;
    return ProcessorFailed(index, std::string("left ") +
                                      (std::isnan(logits[id]) ? "NaN" : "+infinity") + " at id " +
                                      std::to_string(id) +
                                      ". Logits must be finite, or -infinity to exclude a token.");
  }
  return Status::Ok();
}

}  // namespace

std::unique_ptr<LogitsPipeline> LogitsPipeline::Make(const SamplingParams& sampling,
                                                     const std::vector<TokenId>& end_ids,
                                                     std::vector<LogitsProcessor> own) {
  std::unique_ptr<LogitsPipeline> pipeline(new LogitsPipeline());
  const auto add = [&pipeline](auto stage) {
    pipeline->uses_counts_ |= stage.uses_counts();
    pipeline->stages_.push_back(std::make_unique<decltype(stage)>(std::move(stage)));
  };
  if (!sampling.logit_bias.empty()) add(LogitBias(sampling.logit_bias));
  if (sampling.repetition_penalty != 1.0f) add(RepetitionPenalty(sampling.repetition_penalty));
  if (sampling.frequency_penalty != 0.0f || sampling.presence_penalty != 0.0f)
    add(OccurrencePenalties(sampling.frequency_penalty, sampling.presence_penalty));
  if (sampling.no_repeat_ngram_size > 0) add(NoRepeatNgram(sampling.no_repeat_ngram_size));
  if (!sampling.bad_words_ids.empty()) add(BadWords(sampling.bad_words_ids));
  if (sampling.min_tokens > 0) add(MinTokens(sampling.min_tokens, end_ids));
  if (!sampling.allowed_token_ids.empty()) add(AllowedTokens(sampling.allowed_token_ids));
  pipeline->own_ = std::move(own);
  if (pipeline->stages_.empty() && pipeline->own_.empty()) return nullptr;
  return pipeline;
}

Status LogitsPipeline::Apply(std::span<const TokenId> tokens, int32_t prompt_tokens,
                             std::span<float> logits) {
  if (uses_counts_) counts_.CatchUp(tokens, prompt_tokens);
  const SequenceView sequence{tokens, prompt_tokens, counts_};
  for (const auto& stage : stages_) stage->Apply(sequence, logits);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] < std::numeric_limits<float>::infinity()) continue;
    return Status(StatusCode::kInvalidArgument,
                  "logit_bias or a penalty makes the logit of id " + std::to_string(id) +
                      " at position " + std::to_string(tokens.size()) +
                      " too large for a float. Use values nearer to 0, or to 1 for "
                      "repetition_penalty.");
  }
  for (size_t i = 0; i < own_.size(); ++i) {
    if (Status status = Run(own_[i], i, tokens, logits); !status.ok()) return status;
  }
  for (const float logit : logits) {
    if (logit > -std::numeric_limits<float>::infinity()) return Status::Ok();
  }
  return Status(StatusCode::kInvalidArgument,
                "The settings exclude every token at position " + std::to_string(tokens.size()) +
                    ". Loosen allowed_token_ids, bad_words, min_tokens, no_repeat_ngram_size or "
                    "the logits processors.");
}

}  // namespace slipstream::decode
