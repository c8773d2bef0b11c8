// What a caller asks of an Executor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
};

}  // namespace slipstream
