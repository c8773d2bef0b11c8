#include "text/unigram.h"

#include <algorithm>

#include "text/utf8.h"

namespace slipstream::text {
namespace {

// How far below the lowest score unknown text lies: SentencePiece's constant.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, TokenId unk_id,
                           bool byte_fallback)
    : vocabulary_(vocabulary),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  if (!scores_.empty())
    unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  if (byte_fallback) byte_ids_ = vocabulary.ByteTokens();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.Bytes(id).empty()) trie_ids_.push_back(id);
  }
  std::sort(trie_ids_.begin(), trie_ids_.end(),
            [&](TokenId a, TokenId b) { return vocabulary.Bytes(a) < vocabulary.Bytes(b); });
  std::vector<std::string_view> keys;
  keys.reserve(trie_ids_.size());
  for (const TokenId id : trie_ids_) keys.push_back(vocabulary.Bytes(id));
  trie_ = ByteTrie(keys);
}

bool UnigramModel::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  if (word.empty()) return true;
  std::vector<Step> steps(word.size() + 1);
  const auto offer = [&](size_t begin, size_t end, TokenId id, double score) {
    Step& step = steps[end];
    if (step.id < 0 || score > step.score) step = {score, begin, id};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double base = steps[begin].score;
    const size_t char_size = DecodeUtf8(word, begin).size;
    bool has_char = false;
    trie_.ForEach(word, begin, [&](int32_t key, size_t size) {
      const TokenId id = trie_ids_[static_cast<size_t>(key)];
      offer(begin, begin + size, id, scores_[static_cast<size_t>(id)] + base);
      has_char |= size == char_size;
    });
    if (!has_char) {
      if (unk_id_ < 0) return false;
      offer(begin, begin + char_size, unk_id_, unk_score_ + base);
    }
    begin += char_size;
  }
  // From the end to the start; neighbouring unknown parts are one.
  std::vector<std::pair<size_t, size_t>> pieces;
  bool last_unknown = false;
  for (size_t end = word.size(); end > 0;) {
    const Step& step = steps[end];
    const bool unknown = unk_id_ >= 0 && step.id == unk_id_;
    if (unknown && last_unknown) {
      pieces.back().first = step.begin;
    } else {
      pieces.emplace_back(step.begin, end);
    }
    last_unknown = unknown;
    end = step.begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (!EncodePiece(word.substr(piece->first, piece->second - piece->first), ids)) return false;
  }
  return true;
}

bool UnigramModel::EncodePiece(std::string_view piece, std::vector<TokenId>* ids) const {
  if (const TokenId id = vocabulary_.FindBytes(piece); id >= 0) {
    ids->push_back(id);
    return true;
  }
  if (byte_fallback_) {
    const size_t before = ids->size();
    for (const char byte : piece) ids->push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    const auto begin = ids->begin() + static_cast<ptrdiff_t>(before);
    if (std::find(begin, ids->end(), -1) == ids->end()) return true;
    ids->resize(before);  // only all of its bytes can stand in for a piece
  }
  if (unk_id_ < 0) return false;
  ids->push_back(unk_id_);
  return true;
}

}  // namespace slipstream::text
