// The tokens that may still be drawn, and the filters that narrow them: top-k, top-p, min-p,
// typical-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::decode {

/// Probabilities as unsigned fixed point: 2^40 stands for the likeliest token of the row. Sums of
/// at most 2^22 of them are exact in 64 bits, so that no result depends on the order of a
/// summation, and a draw needs no rounding rule. What is below 2^-40 of the likeliest token has
/// weight 0 and is never drawn.
using Weight = uint64_t;
inline constexpr int kWeightBits = 40;

/// exp(x - max) in [0, 1], as a float, to a weight: rounded toward zero.
inline Weight ToWeight(float relative_probability) {
  return static_cast<Weight>(
      static_cast<int64_t>(relative_probability * static_cast<float>(int64_t{1} << kWeightBits)));
}

struct Candidate {
  float logit = 0.0f;
  TokenId id = 0;
  Weight weight = 0;
};

/// Order of likelihood: higher logit first, equal logits by the lower id. A total order, so that
/// every filter has one answer whatever algorithm finds it.
inline bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Keeps the k likeliest; the order of what remains is unspecified. k <= 0 keeps all.
void KeepTopK(int32_t k, std::vector<Candidate>* candidates);

/// Keeps the shortest prefix, in order of likelihood, whose weight reaches top_p times the weight
/// of all candidates; always the likeliest. The order of what remains is unspecified. top_p >= 1
/// keeps all.
void KeepTopP(float top_p, std::vector<Candidate>* candidates);

/// Keeps the candidates whose weight is at least min_p times the largest weight. min_p <= 0 keeps
/// all.
void KeepMinP(float min_p, std::vector<Candidate>* candidates);

/// Keeps the tokens whose information -log p is closest to its mean, the entropy, both over the
/// candidates: the shortest prefix in that order, equal distances by likelihood, whose weight
/// reaches typical_p times the weight of all. With r[i] = logit[i] * scale - shift, whose exp is
/// the weight, the distance is |r[i] - sum(w * r) / sum(w)|: the logarithm of the sum cancels out.
/// It is computed in fixed point of 32 fraction bits. The order of what remains is unspecified.
/// typical_p >= 1 keeps all.
void KeepTypicalP(float typical_p, float scale, float shift, std::vector<Candidate>* candidates);

/// Draws a candidate with probability proportional to its weight: the first, by ascending id, whose
/// cumulated weight exceeds ScaleToBound(bits, total weight). Reorders the candidates by id. At
/// least one weight must be positive.
TokenId Draw(uint64_t bits, std::vector<Candidate>* candidates);

}  // namespace slipstream::decode
