// The parts of a tokenizer, put together. Immutable after loading.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "slipstream/text.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
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
  /// Whether decoded text is the bytes of the tokens, joined. Else decoder() makes it from their
  /// spellings.
  bool decodes_bytes() const {
    return model_vocabulary_.alphabet() == Vocabulary::Alphabet::kByteLevel;
  }
  const std::vector<DecoderStage>& decoder() const { return decoder_; }
  bool Contains(TokenId id) const { return VocabularyOf(id).Contains(id); }
  std::string Spelling(TokenId id) const {
    const auto respelled = respelled_.find(id);
    return respelled == respelled_.end() ? VocabularyOf(id).Spelling(id)
                                         : respelled->second.spelling;
  }

  /// An added token that the normalizer changes. Its text and its spelling are the changed ones,
  /// and it counts as special only if that spelling is a special token's: the rules of Hugging
  /// Face.
  struct Respelled {
    std::string spelling;
    std::string bytes;  // what it decodes to in a byte-level vocabulary
    bool special = false;
  };
  const Respelled* FindRespelled(TokenId id) const {
    if (respelled_.empty()) return nullptr;
    const auto it = respelled_.find(id);
    return it == respelled_.end() ? nullptr : &it->second;
  }
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
  Status EncodePiece(Piece piece, bool parse_special, std::vector<TokenId>* ids) const;
  Status EncodePlain(Piece piece, std::vector<TokenId>* ids) const;

  Vocabulary model_vocabulary_;  // what words are made of
  Vocabulary added_vocabulary_;  // added tokens outside the model; words never become these
  std::unique_ptr<Model> model_;
  AddedTokenMatcher first_tokens_;  // looked for in the text itself
  AddedTokenMatcher
      second_tokens_;  // those with `normalized`, looked for in what is left, normalized
  std::vector<bool> special_;
  std::unordered_map<TokenId, Respelled> respelled_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::vector<DecoderStage> decoder_;
  std::vector<TokenId> template_;  // -1 stands for the ids of the text
};

}  // namespace slipstream::text
