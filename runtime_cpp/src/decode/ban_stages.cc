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
  const auto tail = tokens.end() - static_cast<std::ptrdiff_t>(prefix);
  // Every n-gram of the sequence begins before the tail: it has one token more.
  for (auto begin = tokens.begin(); begin != tail; ++begin) {
    if (std::equal(tail, tokens.end(), begin)) logits[begin[prefix]] = kExcluded;
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
