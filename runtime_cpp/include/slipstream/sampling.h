// How the next token is chosen from the logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/types.h"

namespace slipstream {

/// Sampling settings of one request. Requests with different settings share a batch.
///
/// Order of the pipeline: temperature, top_k, top_p, min_p, draw. A temperature below 1e-5 is
/// greedy (highest logit, ties to the lower id) and ignores top_k, top_p and min_p.
struct SamplingParams {
  /// Tokens to generate at most; at least 1. Prompt and answer together never exceed the engine's
  /// max_seq_len: a larger value is allowed, and such an answer ends there with kLength.
  int32_t max_tokens = 16;
  float temperature = 1.0f;  ///< >= 0 and finite.
  int32_t top_k = 0;         ///< Keep the k likeliest tokens; 0 keeps all.
  float top_p = 1.0f;  ///< Keep the likeliest tokens whose probability sums to top_p; in (0, 1].
  float min_p = 0.0f;  ///< Drop tokens below min_p times the likeliest probability; in [0, 1].
  /// Absent: a fresh seed for every request, reported in Response::seed.
  std::optional<uint64_t> seed;
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
  /// Report the log-probability of each sampled token under the raw logits: before temperature and
  /// filters.
  bool logprobs = false;
};

}  // namespace slipstream
