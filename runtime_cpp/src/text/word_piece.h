// WordPiece and WordLevel: words looked up in the vocabulary, identical to Hugging Face's models.
#pragma once

#include <string>
#include <vector>

#include "text/model.h"
#include "text/vocabulary.h"

namespace slipstream::text {

/// The longest token that the word starts with, then the longest one of the rest with `prefix` in
/// front, and so on; words for which that fails are unknown.
class WordPieceModel final : public Model {
 public:
  /// `vocabulary` holds text and must outlive the model. Longer words than `max_chars` characters
  /// are unknown. `unk_id` -1: none.
  WordPieceModel(const Vocabulary& vocabulary, TokenId unk_id, std::string prefix,
                 size_t max_chars);

 private:
  bool EncodeWord(std::string_view word, std::vector<TokenId>* ids) const override;

  const Vocabulary& vocabulary_;
  TokenId unk_id_;
  std::string prefix_;
  size_t max_chars_;
  size_t longest_ = 0;  // bytes of the longest token
};

/// Whole words only.
class WordLevelModel final : public Model {
 public:
  WordLevelModel(const Vocabulary& vocabulary, TokenId unk_id)
      : vocabulary_(vocabulary), unk_id_(unk_id) {}

 private:
  bool EncodeWord(std::string_view word, std::vector<TokenId>* ids) const override;

  const Vocabulary& vocabulary_;
  TokenId unk_id_;
};

}  // namespace slipstream::text
