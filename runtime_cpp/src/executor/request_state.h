// One request while it waits and runs: its tokens, its text, and the news not yet told.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/logits_pipeline.h"
#include "decode/sampler.h"
#include "decode/stop_matcher.h"
#include "executor/family.h"
#include "executor/mailbox.h"
#include "executor/placement.h"
#include "slipstream/executor.h"
#include "slipstream/request.h"
#include "slipstream/response.h"
#include "slipstream/text.h"

namespace slipstream::executor {

/// What a request shares with all others of its executor.
struct ModelFacts {
  EngineLimits limits;
  std::vector<TokenId> eos_token_ids;
  std::optional<Tokenizer> tokenizer;  ///< Absent: token ids in, token ids out.
};

/// One answer of a request. Belongs to the loop's thread once queued. `facts` must outlive it.
class RequestState {
 public:
  /// The request is valid, its bad_words are resolved (ResolveBadWords). `prompt` are its ids;
  /// `seed` the one in use.
  RequestState(const ModelFacts& facts, SamplingParams sampling, std::vector<TokenId> prompt,
               uint64_t seed, ResponseCallback callback,
               std::vector<LogitsProcessor> logits_processors = {});

  // Identity and delivery.
  RequestId id = 0;
  ResponseCallback callback;
  std::shared_ptr<Mailbox> mailbox;  ///< Set when there is no callback.

  int32_t index = 0;               ///< Which answer of its request.
  std::shared_ptr<Family> family;  ///< Null: the request has this answer only.
  /// Answers that branch off when its prompt is computed. They have no rank among those that wait.
  Requests siblings;
  bool last = false;  ///< Once finished: no answer of its request is told after it.
  /// Its news wait until all answers of the request have ended.
  bool held() const { return family != nullptr && family->ranked; }

  Placement place;

  /// Prompt and generated tokens so far.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int32_t prompt_tokens() const { return prompt_tokens_; }
  /// Most tokens it may ever have: prompt + max_tokens, at most max_seq_len.
  int64_t total_limit() const { return total_limit_; }
  /// Positions whose keys and values are in the cache.
  int32_t computed() const { return computed_; }
  int32_t pending() const { return static_cast<int32_t>(tokens_.size()) - computed_; }
  /// One generated token is all that is not computed yet. False again after a preemption, until
  /// what it lost is recomputed.
  bool decoding() const {
    return pending() == 1 && static_cast<int32_t>(tokens_.size()) > prompt_tokens_;
  }
  void SetComputed(int32_t positions) { computed_ = positions; }

  /// How to draw the next token.
  decode::SampleOptions sample_options() const;

  /// The processors of its logits; null when rows stay as they are.
  decode::LogitsPipeline* pipeline() const { return pipeline_.get(); }
  const SamplingParams& sampling() const { return sampling_; }
  /// True when its tokens cannot be told from the sampled ids alone: the host must see their
  /// logits.
  bool needs_logits() const { return scores_tokens() || sampling_.return_logits; }
  /// True when it sums the log-probabilities of its tokens.
  bool scores_tokens() const { return sampling_.logprobs || held(); }
  double cumulative_logprob() const { return cumulative_logprob_; }

  /// Prompt positions, from the front, whose row has given the log-probability of the next token.
  /// The rows from there to the last but one of the prompt need logits, where they are asked for.
  int32_t prompt_scored() const { return prompt_scored_; }
  /// True until every prompt token has its log-probability, where they are asked for: the cache
  /// must not be read instead of computing its rows.
  bool scores_prompt() const {
    return sampling_.prompt_logprobs && prompt_scored_ < prompt_tokens_ - 1;
  }
  /// Takes the log-probabilities of prompt token prompt_scored() + 1. They are told with the first
  /// sampled token.
  void AppendPromptScores(TokenLogprobs scores) {
    news_.prompt_logprobs.push_back(std::move(scores));
    ++prompt_scored_;
  }

  /// Takes a sampled token: text, stop conditions, length. The request may be finished afterwards.
  /// `scores` and `logits` (the raw row) are kept where the request asks for them.
  void Append(TokenId token, TokenLogprobs scores = {}, std::span<const float> logits = {});
  /// Ends it for a reason from outside; the text held back so far is told, or the reason becomes
  /// kError where memory runs out. No effect once finished.
  void Finish(FinishReason reason, Status status = Status::Ok()) noexcept;
  /// The same with kError and a copy of `status`, or a word on memory where that runs out.
  void Fail(const Status& status) noexcept;
  bool finished() const { return news_.finished(); }
  bool failed() const { return news_.finish_reason == FinishReason::kError; }
  FinishReason finish_reason() const { return news_.finish_reason; }
  /// Of a failure that is not told yet.
  const Status& status() const { return news_.status; }

  bool has_news() const { return has_news_; }
  /// The news since the last call, as a response.
  Response TakeNews();

 private:
  /// Tokens after the prompt so far.
  int64_t generated() const { return static_cast<int64_t>(tokens_.size()) - prompt_tokens_; }
  /// Whether a stop string that the last token completes ends the request.
  bool StopStringsCount() const {
    return sampling_.min_tokens == 0 || generated() > sampling_.min_tokens;
  }
  void End(FinishReason reason);

  const ModelFacts& facts_;
  SamplingParams sampling_;
  std::vector<TokenId> tokens_;
  int32_t prompt_tokens_;
  int64_t total_limit_;
  int32_t computed_ = 0;
  int32_t prompt_scored_ = 0;
  uint64_t seed_;
  double cumulative_logprob_ = 0;
  std::optional<StreamDecoder> decoder_;
  std::vector<TokenId> end_ids_;  ///< EOS ids, unless they are ignored, and the stop ids.
  std::unique_ptr<decode::LogitsPipeline> pipeline_;
  decode::StopMatcher stops_;
  Response news_;
  bool has_news_ = false;
};

}  // namespace slipstream::executor
