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
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_)
    first_byte_[static_cast<uint8_t>(token.content[0])] = true;
  // Level by level over the sorted tokens, so that the edges of a node lie side by side. Not
  // recursive: a token may be long.
  struct Pending {
    size_t begin, end, depth;
    uint32_t node;
  };
  nodes_.emplace_back();
  std::vector<Pending> queue = {{0, tokens_.size(), 0, 0}};
  for (size_t next = 0; next < queue.size(); ++next) {
    auto [begin, end, depth, node] = queue[next];
    if (begin < end && tokens_[begin].content.size() == depth) {
      nodes_[node].token = static_cast<int32_t>(begin);
      ++begin;
    }
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = tokens_[begin].content[depth];
      size_t same = begin;
      while (same < end && tokens_[same].content[depth] == byte) ++same;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({static_cast<uint8_t>(byte), child});
      ++nodes_[node].edge_count;
      queue.push_back({begin, same, depth + 1, child});
      begin = same;
    }
  }
}

int32_t AddedTokenMatcher::LongestAt(std::string_view text, size_t position) const {
  int32_t longest = -1;
  uint32_t node = 0;
  for (size_t i = position;; ++i) {
    if (nodes_[node].token >= 0) longest = nodes_[node].token;
    if (i == text.size()) return longest;
    const auto byte = static_cast<uint8_t>(text[i]);
    const Edge* begin = edges_.data() + nodes_[node].first_edge;
    const Edge* end = begin + nodes_[node].edge_count;
    const Edge* edge =
        std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
    if (edge == end || edge->byte != byte) return longest;
    node = edge->node;
  }
}

void AddedTokenMatcher::Split(std::string_view text, bool parse_special,
                              std::vector<TextPiece>* pieces) const {
  size_t plain = 0;  // start of what has not been given out
  for (size_t position = 0; position < text.size();) {
    const int32_t index =
        first_byte_[static_cast<uint8_t>(text[position])] ? LongestAt(text, position) : -1;
    if (index < 0) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = position;
    size_t end = position + token.content.size();
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
