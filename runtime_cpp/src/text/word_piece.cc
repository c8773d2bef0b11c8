#include "text/word_piece.h"

#include <algorithm>

#include "text/utf8.h"

namespace slipstream::text {
namespace {

bool IsStart(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

bool PushUnknown(TokenId unk_id, std::vector<TokenId>* ids) {
  if (unk_id < 0) return false;
  ids->push_back(unk_id);
  return true;
}

}  // namespace

WordPieceModel::WordPieceModel(const Vocabulary& vocabulary, TokenId unk_id, std::string prefix,
                               size_t max_chars)
    : vocabulary_(vocabulary), unk_id_(unk_id), prefix_(std::move(prefix)), max_chars_(max_chars) {
  for (TokenId id = 0; id < vocabulary.size(); ++id)
    longest_ = std::max(longest_, vocabulary.Bytes(id).size());
}

bool WordPieceModel::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  const auto chars = static_cast<size_t>(std::count_if(word.begin(), word.end(), IsStart));
  if (chars > max_chars_) return PushUnknown(unk_id_, ids);
  const size_t before = ids->size();
  std::string key;
  for (size_t begin = 0; begin < word.size();) {
    key = begin > 0 ? prefix_ : std::string();
    const size_t prefix = key.size();
    key.append(word, begin, longest_);
    // Not inside a character, which longest_ may have cut.
    size_t end = begin + key.size() - prefix;
    TokenId id = -1;
    while (end > begin) {
      if (end == word.size() || IsStart(word[end])) {
        id = vocabulary_.FindBytes(std::string_view(key).substr(0, prefix + end - begin));
        if (id >= 0) break;
      }
      --end;
    }
    if (id < 0) {
      ids->resize(before);
      return PushUnknown(unk_id_, ids);
    }
    ids->push_back(id);
    begin = end;
  }
  return true;
}

bool WordLevelModel::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  const TokenId id = vocabulary_.FindBytes(word);
  if (id < 0) return PushUnknown(unk_id_, ids);
  ids->push_back(id);
  return true;
}

}  // namespace slipstream::text
