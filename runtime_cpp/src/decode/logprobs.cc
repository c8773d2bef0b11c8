#include "decode/logprobs.h"

#include <algorithm>

#include "decode/candidates.h"

namespace slipstream::decode {
namespace {

// The likeliest `count` tokens, likeliest first.
std::vector<TokenLogprob> Likeliest(std::span<const float> logits, size_t count) {
  const auto likelier = [](const TokenLogprob& a, const TokenLogprob& b) {
    return Likelier({.logit = a.logprob, .id = a.id}, {.logit = b.logprob, .id = b.id});
  };
  // A heap of the best so far with the worst of them in front. Ids ascend, so that a later token
  // must beat it by its logit alone.
  std::vector<TokenLogprob> best;
  best.reserve(count);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (best.size() == count) {
      if (!(logits[i] > best.front().logprob)) continue;
      std::pop_heap(best.begin(), best.end(), likelier);
      best.pop_back();
    }
    best.push_back({static_cast<TokenId>(i), logits[i]});
    std::push_heap(best.begin(), best.end(), likelier);
  }
  std::sort_heap(best.begin(), best.end(), likelier);
  return best;
}

}  // namespace

TokenLogprobs ScoreToken(const core::RowMath& math, std::span<const float> logits, TokenId id,
                         int32_t top) {
  const float log_sum = math.log_sum_exp(logits.data(), static_cast<int32_t>(logits.size()));
  const float logit = logits[id];
  TokenLogprobs scores{.logprob = logit - log_sum, .rank = 1};
  for (size_t i = 0; i < logits.size(); ++i)
    scores.rank += logits[i] > logit || (logits[i] == logit && i < static_cast<size_t>(id));
  if (top > 0) scores.top = Likeliest(logits, std::min<size_t>(top, logits.size()));
  for (TokenLogprob& token : scores.top) token.logprob -= log_sum;
  return scores;
}

}  // namespace slipstream::decode
