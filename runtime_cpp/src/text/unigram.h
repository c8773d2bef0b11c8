// Unigram: the segmentation of a word with the highest sum of scores (Viterbi), identical to
// Hugging Face's Unigram model.
#pragma once

#include <array>
#include <vector>

#include "text/byte_trie.h"
#include "text/model.h"
#include "text/vocabulary.h"

namespace slipstream::text {

class UnigramModel final : public Model {
 public:
  /// `vocabulary` holds text, has an id for each of `scores`, and must outlive the model. `unk_id`
  /// -1: none.
  UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, TokenId unk_id,
               bool byte_fallback);

 private:
  bool EncodeWord(std::string_view word, std::vector<TokenId>* ids) const override;

  struct Step {
    double score = 0;
    size_t begin = 0;
    TokenId id = -1;  // -1: not reached
  };

  bool EncodePiece(std::string_view piece, std::vector<TokenId>* ids) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  double unk_score_ = 0;
  TokenId unk_id_;
  bool byte_fallback_;  // <0x00> to <0xFF> stand in for unknown text
  std::array<TokenId, 256> byte_ids_{};
  ByteTrie trie_;
  std::vector<TokenId> trie_ids_;  // the token of each key
};

}  // namespace slipstream::text
