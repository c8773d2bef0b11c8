#include "executor/bad_words.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "executor/validate.h"

namespace slipstream::executor {

Status ResolveBadWords(const Tokenizer& tokenizer, int32_t vocab_size, SamplingParams* sampling) {
  for (size_t i = 0; i < sampling->bad_words.size(); ++i) {
    const std::string name = "bad_words[" + std::to_string(i) + "]";
    for (const char* front : {"", " "}) {
      Result<std::vector<TokenId>> ids =
          tokenizer.Encode(front + sampling->bad_words[i], {.add_special_tokens = false});
      if (!ids.ok()) return ids.status();
      if (ids->empty()) {
        return Status(StatusCode::kInvalidArgument,
                      name + " gives no tokens. Remove it or give another text.");
      }
      if (Status status = ValidateTokenIds(*ids, vocab_size, ("tokens of " + name).c_str());
          !status.ok())
        return status;
      std::vector<std::vector<TokenId>>& known = sampling->bad_words_ids;
      if (std::find(known.begin(), known.end(), *ids) == known.end())
        known.push_back(*std::move(ids));
    }
  }
  return Status::Ok();
}

}  // namespace slipstream::executor
