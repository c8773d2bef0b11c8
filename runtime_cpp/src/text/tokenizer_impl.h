// The parts of a tokenizer, put together. Immutable after loading.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/text.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace slipstream::text {

class TokenizerImpl {
 public:
  /// Reads a tokenizer.json.
  static Result<std::shared_ptr<const TokenizerImpl>> FromJson(std::string_view json);

  Status Encode(std::string_view text, const EncodeOptions& options,
                std::vector<TokenId>* ids) const;

  /// The bytes that `id` decodes to; empty for unknown ids.
  std::string_view Bytes(TokenId id) const { return VocabularyOf(id).Bytes(id); }
  std::string Spelling(TokenId id) const { return VocabularyOf(id).Spelling(id); }
  TokenId Find(std::string_view spelling) const;
  int32_t vocab_size() const {
    return std::max(model_vocabulary_.size(), added_vocabulary_.size());
  }
  bool IsSpecial(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < special_.size() && special_[id];
  }

 private:
  friend class TokenizerReader;

  const Vocabulary& VocabularyOf(TokenId id) const {
    return model_vocabulary_.Contains(id) ? model_vocabulary_ : added_vocabulary_;
  }
  Status EncodePlain(std::string_view text, std::vector<TokenId>* ids) const;

  Vocabulary model_vocabulary_;  // what words are made of
  Vocabulary added_vocabulary_;  // added tokens outside the model; words never become these
  std::unique_ptr<BpeModel> model_;
  AddedTokenMatcher first_tokens_;   // looked for in the text itself
  AddedTokenMatcher second_tokens_;  // those with `normalized`, looked for in what is left
  std::vector<bool> special_;
  PreTokenizer pre_tokenizer_;
  std::vector<TokenId> template_;  // -1 stands for the ids of the text
};

}  // namespace slipstream::text
