#include "decode/ban_stages.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace slipstream::decode {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

}  // namespace

void NoRepeatNgram::Apply(const SequenceView& sequence, std::span<float> logits) const {
  const std::span<const TokenId> tokens = sequence.tokens;
  const size_t prefix = static_cast<size_t>(size_) - 1;
  if (tokens.size() <= prefix) return;
  const std::span<const TokenId> tail = tokens.last(prefix);
  // Knuth-Morris-Pratt: however long the n-gram and however repetitive the text, a step costs no
  // more than one look at each token.
  std::vector<size_t> border(prefix + 1, 0);  // [i]: longest proper border of the first i of tail
  for (size_t i = 1; i < prefix; ++i) {
    size_t length = border[i];
    while (length > 0 && tail[length] != tail[i]) length = border[length];
    border[i + 1] = length + (tail[length] == tail[i]);
  }
  size_t length = 0;  // so many tokens of the tail end before `token`
  for (const TokenId token : tokens) {
    if (length == prefix) {
      logits[token] = kExcluded;
      length = border[prefix];
    }
    if (prefix == 0) continue;
    while (length > 0 && tail[length] != token) length = border[length];
    length += tail[length] == token;
  }
}

void BadWords::Apply(const SequenceView& sequence, std::span<float> logits) const {
  const std::span<const TokenId> tokens = sequence.tokens;
  for (const std::vector<TokenId>& word : sequences_) {
    const size_t prefix = word.size() - 1;
    if (tokens.size() >= prefix && std::equal(word.begin(), word.end() - 1, tokens.end() - prefix))
      logits[word.back()] = kExcluded;
  }
}

void MinTokens::Apply(const SequenceView& sequence, std::span<float> logits) const {
  if (sequence.generated() >= count_) return;
  for (const TokenId id : end_ids_) logits[id] = kExcluded;
}

AllowedTokens::AllowedTokens(std::vector<TokenId> ids) : ids_(std::move(ids)) {
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
}

void AllowedTokens::Apply(const SequenceView&, std::span<float> logits) const {
  size_t begin = 0;
  for (const TokenId id : ids_) {
    std::fill(logits.begin() + begin, logits.begin() + id, kExcluded);
    begin = static_cast<size_t>(id) + 1;
  }
  std::fill(logits.begin() + begin, logits.end(), kExcluded);
}

}  // namespace slipstream::decode
