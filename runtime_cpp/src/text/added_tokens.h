// Added tokens: strings that are cut out of the text before anything else happens to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/types.h"
#include "text/byte_trie.h"

namespace slipstream::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  std::string pattern;       ///< what is looked for: the content, normalized if `normalized`
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the white space on its left with it
  bool rstrip = false;
  bool normalized = true;  ///< looked for after the others
  bool special = false;    ///< left out of decoded text on request
};

/// A piece of text: plain (id < 0) or an added token.
struct TextPiece {
  std::string_view text;
  TokenId id = -1;
};

/// Finds the added tokens of a text: leftmost, longest first. Immutable.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Cuts `text` into pieces, appended in order. Special tokens count as plain text unless
  /// `parse_special`.
  void Split(std::string_view text, bool parse_special, std::vector<TextPiece>* pieces) const;

 private:
  std::vector<AddedToken> tokens_;  // sorted by pattern
  ByteTrie trie_;                   // over `pattern`
  bool first_byte_[256] = {};
  int only_first_byte_ = -1;  // when there is just one
};

}  // namespace slipstream::text
