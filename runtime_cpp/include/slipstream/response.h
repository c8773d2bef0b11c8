// What an Executor tells of a request: a stream of deltas that ends with a finish reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/export.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream {

enum class FinishReason : uint8_t {
  kNone = 0,       ///< More will come.
  kStop = 1,       ///< An EOS id, a stop id or a stop string.
  kLength = 2,     ///< max_tokens, or the engine's max_seq_len.
  kCancelled = 3,  ///< Executor::Cancel or Shutdown; the tokens so far are valid.
  kError = 4,      ///< See Response::status; other requests go on.
  kTimeLimit = 5,  ///< Request::time_limit; the tokens so far are valid.
};

/// "stop", "length", "cancelled", "error", "time_limit" or "" (for kNone).
SLIPSTREAM_API const char* FinishReasonName(FinishReason reason);

/// A token and the natural logarithm of its probability.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;
  bool operator==(const TokenLogprob&) const = default;
};

/// The log-probability of the token in one place of a sequence, and of the likeliest ones there.
struct TokenLogprobs {
  float logprob = 0.0f;           ///< Natural log.
  int32_t rank = 0;               ///< 1 for the likeliest token; equal ones by the lower id.
  std::vector<TokenLogprob> top;  ///< As many as asked for, at most vocab_size; by rank.
  bool operator==(const TokenLogprobs&) const = default;
};

/// News of one answer of a request since its previous Response. Concatenating `text`, `token_ids`,
/// `logprobs`, `prompt_logprobs` and `logits` over all responses of an answer gives exactly what
/// one non-streamed response would hold. Each `text` is valid UTF-8 by itself.
struct Response {
  RequestId id = 0;
  int32_t index = 0;  ///< Which answer: 0 <= index < SamplingParams::n.
  bool last = false;  ///< Every answer of the request is finished: nothing follows.
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs>
      logprobs;  ///< One per token id, or SamplingParams::logprobs is absent.
  /// One per prompt token after the first, given with the first token id of answer 0; empty
  /// unless SamplingParams::prompt_logprobs.
  std::vector<TokenLogprobs> prompt_logprobs;
  /// The raw row of vocab_size values of each token id, one after the other; empty unless
  /// SamplingParams::return_logits.
  std::vector<float> logits;
  /// Sum of the log-probabilities of its tokens so far, where SamplingParams::logprobs or a best_of
  /// above n asks for them; else 0.
  double cumulative_logprob = 0;
  FinishReason finish_reason = FinishReason::kNone;  ///< Of this answer.
  Status status;               ///< Not ok exactly when finish_reason is kError.
  std::string stop_string;     ///< The stop string that ended the request, if one did.
  TokenId stop_token = -1;     ///< The id that ended the request, if one did.
  int32_t prompt_tokens = 0;   ///< Length of the prompt in tokens.
  int32_t cached_tokens = 0;   ///< Prompt tokens whose KV was reused instead of computed.
  int32_t preemptions = 0;     ///< Times that it went back to the queue.
  int64_t queued_us = 0;       ///< From Submit to its first step.
  int64_t first_token_us = 0;  ///< From Submit to its first token (TTFT).
  int64_t total_us = 0;        ///< From Submit to this response.
  uint64_t seed = 0;           ///< The seed in use: given, fresh or AnswerSeed of one of these.

  /// This answer has ended. With n = 1 that is the end of the request; else see `last`.
  bool finished() const { return finish_reason != FinishReason::kNone; }
  /// Appends the next news: afterwards this is what one response in place of both would hold.
  /// std::bad_alloc leaves a part of it behind.
  SLIPSTREAM_API void Join(Response later);
};

}  // namespace slipstream
