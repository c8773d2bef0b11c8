// What a caller asks of an Executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/kv_cache.h"
#include "slipstream/sampling.h"
#include "slipstream/types.h"

namespace slipstream {

/// One prompt to be continued. Exactly one of `prompt` and `prompt_token_ids` must be non-empty.
struct Request {
  std::string prompt;                     ///< UTF-8 text, tokenized by the engine's own tokenizer.
  std::vector<TokenId> prompt_token_ids;  ///< Ready token ids, used as they are.
  /// Text prompts: apply the tokenizer's BOS/EOS template. False after a chat template.
  bool add_special_tokens = true;
  SamplingParams sampling;
  std::vector<LogitsProcessor> logits_processors;  ///< None of them empty.

  /// Higher is served first. From -1000 to 1000.
  int32_t priority = 0;
  /// When the first token is due, from Submit on; among requests of equal priority the sooner one
  /// is served first. 0: no such target.
  std::chrono::milliseconds ttft_target{0};
  /// Longest gap between two tokens: while it decodes, prompts of other requests get no more of a
  /// step than leaves this gap, as far as the measured speed tells. 0: no such target.
  std::chrono::milliseconds tpot_target{0};
  /// The request ends with kTimeLimit when it is not finished this long after Submit; the tokens so
  /// far are valid. 0: no limit.
  std::chrono::milliseconds time_limit{0};
  /// Requests share cached KV only with requests of the same salt. At most 256 bytes.
  std::string cache_salt;
  /// False: compute the whole prompt, whatever is cached.
  bool read_cache = true;
  /// False: nothing of this request is kept for others.
  bool write_cache = true;
  /// How firmly its KV is kept afterwards. A block that several ranges meet has the highest of
  /// their priorities, one that none meets keeps what it had; of requests that share a block the
  /// last decides. At most 1024.
  std::vector<KvRetention> retention;
};

}  // namespace slipstream
