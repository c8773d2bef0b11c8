// How the next token is chosen from the logits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slipstream/export.h"
#include "slipstream/types.h"

namespace slipstream {

/// Most log-probabilities of likeliest tokens that SamplingParams::logprobs and prompt_logprobs may
/// ask for.
inline constexpr int32_t kMaxLogprobs = 256;

/// Sampling settings of one request. Requests with different settings share a batch.
///
/// Order of the pipeline, on a row of raw logits:
///  1. logit_bias, repetition_penalty, frequency_penalty and presence_penalty change values;
///  2. no_repeat_ngram_size, bad_words, min_tokens and allowed_token_ids exclude tokens;
///  3. the request's own LogitsProcessors, in their order;
///  4. temperature, top_k, top_p, min_p, typical_p; draw.
///
/// A temperature below 1e-5 is greedy (highest logit after step 3, ties to the lower id) and
/// ignores the filters of step 4. A request whose settings exclude every token ends with kError.
/// The result is a function of the tokens so far, the logits and the settings alone: never of what
/// else is in the batch.
struct SamplingParams {
  /// Tokens to generate at most; at least 1. Prompt and answer together never exceed the engine's
  /// max_seq_len: a larger value is allowed, and such an answer ends there with kLength.
  int32_t max_tokens = 16;
  /// Until so many tokens are generated, EOS ids (unless ignore_eos) and stop_token_ids are
  /// excluded, and a stop string that is completed by one of these tokens does not end; from 0 to
  /// max_tokens.
  int32_t min_tokens = 0;
  float temperature = 1.0f;  ///< >= 0 and finite.
  int32_t top_k = 0;         ///< Keep the k likeliest tokens; 0 keeps all.
  float top_p = 1.0f;  ///< Keep the likeliest tokens whose probability sums to top_p; in (0, 1].
  float min_p = 0.0f;  ///< Drop tokens below min_p times the likeliest probability; in [0, 1].
  /// Keep the tokens whose information is closest to the entropy of what the other filters left,
  /// until their probability sums to typical_p; in (0, 1]. Meister, Pimentel, Wiher and Cotterell,
  /// "Locally typical sampling" (TACL 2023).
  float typical_p = 1.0f;
  /// Divides positive logits, and multiplies negative ones, of every token of prompt and answer;
  /// above 0 and finite, 1 changes nothing. Keskar et al., "CTRL" (2019).
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;   ///< Subtracted from the logit of every generated token; finite.
  float frequency_penalty = 0.0f;  ///< The same, times how often it was generated; finite.
  /// No n-gram of so many tokens of prompt and answer occurs twice; 0 allows all.
  int32_t no_repeat_ngram_size = 0;
  std::map<TokenId, float> logit_bias;     ///< Added to the logits of these ids; finite.
  std::vector<TokenId> allowed_token_ids;  ///< Every other token is excluded; empty allows all.
  /// Texts that are not generated, as the token sequences that the tokenizer makes of each, with
  /// and without a space in front. Valid UTF-8, not empty. Other spellings of a text in tokens are
  /// not excluded.
  std::vector<std::string> bad_words;
  /// Token sequences that are not generated: the last id of a sequence is excluded where prompt and
  /// answer end with the ids before it.
  std::vector<std::vector<TokenId>> bad_words_ids;
  /// Absent: a fresh seed for every request. Response::seed reports the one in use.
  std::optional<uint64_t> seed;
  /// Answers to give, each told by itself (Response::index): at least 1, at most max_batch_size.
  /// The prompt is computed once. Answer 0 draws with the seed of the request, answer i > 0 with
  /// AnswerSeed(seed, i): it is what a request alone with that seed gets.
  int32_t n = 1;
  /// Answers to generate, of which the n of the highest cumulative log-probability are given, best
  /// first, when all have ended; from n to max_batch_size. Absent: n, told as they grow.
  std::optional<int32_t> best_of;
  /// Generation ends at the first byte of the text that completes one of these, and the text ends
  /// before it; of several completed by the same byte, the longest counts. Valid UTF-8, not empty.
  std::vector<std::string> stop;
  /// Further ids that end generation, beside the model's EOS ids. The id that ended it is in
  /// token_ids, not in the text.
  std::vector<TokenId> stop_token_ids;
  /// Keep the matched stop string at the end of the text.
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;  ///< Go on after an EOS id (benchmarks); stop_token_ids still end.
  /// Leave special tokens out of the text (never out of token_ids).
  bool skip_special_tokens = true;
  /// Report log-probabilities under the raw logits, before every step of the pipeline: of each
  /// sampled token and of so many likeliest ones, from 0 to kMaxLogprobs. Absent: none.
  std::optional<int32_t> logprobs;
  /// The same for each prompt token after the first. Its values are those of a cold run in one
  /// chunk; such a prompt takes at most max_batch_size rows of a step.
  std::optional<int32_t> prompt_logprobs;
  bool return_logits = false;  ///< Report the raw logits of each generated token.
};

/// The seed of answer `index` of a request with `seed`: `seed` itself for index 0, else the first
/// two output words, low word first, of Philox4x32-10 with key = seed (low word first) and counter
/// = (index, 0, 1, 0).
SLIPSTREAM_API uint64_t AnswerSeed(uint64_t seed, int32_t index);

/// A change of the logits by the caller's own code. `tokens` are prompt and answer so far; `logits`
/// holds vocab_size values, written in place: minus infinity excludes a token, NaN and plus
/// infinity are errors. Called once per token of its request, on the executor's thread; it must not
/// block for long. What it throws ends its own request with kError, nothing else.
using LogitsProcessor =
    std::function<void(std::span<const TokenId> tokens, std::span<float> logits)>;

}  // namespace slipstream
