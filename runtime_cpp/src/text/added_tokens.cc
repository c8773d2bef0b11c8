#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

bool WordBefore(std::string_view text, size_t position) {
  return position > 0 &&
         CharClass::Of(DecodeUtf8Before(text, position).code_point).IsAddedTokenWord();
}

bool WordAt(std::string_view text, size_t position) {
  return position < text.size() &&
         CharClass::Of(DecodeUtf8(text, position).code_point).IsAddedTokenWord();
}

size_t SpaceStartBefore(std::string_view text, size_t position) {
  while (position > 0) {
    const Utf8Char c = DecodeUtf8Before(text, position);
    if (!CharClass::Of(c.code_point).IsAddedTokenSpace()) break;
    position -= c.size;
  }
  return position;
}

size_t SpaceEndAfter(std::string_view text, size_t position) {
  while (position < text.size()) {
    const Utf8Char c = DecodeUtf8(text, position);
    if (!CharClass::Of(c.code_point).IsAddedTokenSpace()) break;
    position += c.size;
  }
  return position;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.pattern.empty(); });
  // Of equal patterns, which only a normalizer can make, the first stays.
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.pattern < b.pattern; });
  const auto end =
      std::unique(tokens_.begin(), tokens_.end(),
                  [](const AddedToken& a, const AddedToken& b) { return a.pattern == b.pattern; });
  tokens_.erase(end, tokens_.end());
  std::vector<std::string_view> patterns;
  for (const AddedToken& token : tokens_) {
    patterns.push_back(token.pattern);
    first_byte_[static_cast<uint8_t>(token.pattern[0])] = true;
  }
  trie_ = ByteTrie(patterns);
  if (std::count(std::begin(first_byte_), std::end(first_byte_), true) == 1)
    only_first_byte_ = static_cast<uint8_t>(patterns[0][0]);
}

void AddedTokenMatcher::Split(std::string_view text, bool parse_special,
                              std::vector<TextPiece>* pieces) const {
  size_t plain = 0;  // start of what has not been given out
  for (size_t position = 0; position < text.size() && !empty();) {
    if (only_first_byte_ >= 0) {
      position = text.find(static_cast<char>(only_first_byte_), position);
      if (position == std::string_view::npos) break;
    }
    const int32_t index =
        first_byte_[static_cast<uint8_t>(text[position])] ? trie_.Longest(text, position) : -1;
    if (index < 0) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = position;
    size_t end = position + token.pattern.size();
    position = end;  // the search goes on behind the match, even if it is turned down
    if (token.special && !parse_special) continue;
    if (token.single_word && (WordBefore(text, begin) || WordAt(text, end))) continue;
    // White space that an earlier token took stays with that one.
    if (token.lstrip) begin = std::max(SpaceStartBefore(text, begin), plain);
    if (token.rstrip) end = SpaceEndAfter(text, end);
    if (plain < begin) pieces->push_back({text.substr(plain, begin - plain), -1});
    // Nothing is left of a token of white space that an earlier one took with it.
    if (begin < end) pieces->push_back({text.substr(begin, end - begin), token.id});
    plain = end;
  }
  if (plain < text.size()) pieces->push_back({text.substr(plain), -1});
}

}  // namespace slipstream::text
