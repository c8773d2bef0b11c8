#include "decode/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "decode/philox.h"

namespace slipstream::decode {
namespace {

Weight Sum(const std::vector<Candidate>& candidates) {
  Weight sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

// A share in (0, 1] of a total, rounded up: the least weight that reaches it.
Weight ShareOf(float share, Weight total) {
  return static_cast<Weight>(std::ceil(static_cast<double>(share) * static_cast<double>(total)));
}

// Keeps the shortest prefix in the given order, a total one, whose weight reaches a share of the
// weight of all.
template <class Before>
void KeepShare(float share, const Before& before, std::vector<Candidate>* candidates) {
  const Weight goal = std::max<Weight>(1, ShareOf(share, Sum(*candidates)));
  // The prefix is usually short: sort ever longer heads of the row instead of all of it.
  const size_t size = candidates->size();
  Weight sum = 0;
  size_t sorted = 0;
  for (size_t head = std::min<size_t>(64, size);; head = std::min(size, head * 8)) {
    if (head < size) {
      std::nth_element(candidates->begin() + sorted, candidates->begin() + (head - 1),
                       candidates->end(), before);
    }
    std::sort(candidates->begin() + sorted, candidates->begin() + head, before);
    for (; sorted < head; ++sorted) {
      sum += (*candidates)[sorted].weight;
      if (sum >= goal) {
        candidates->resize(sorted + 1);
        return;
      }
    }
    if (head == size) return;
  }
}

}  // namespace

void KeepTopK(int32_t k, std::vector<Candidate>* candidates) {
  if (k <= 0 || static_cast<size_t>(k) >= candidates->size()) return;
  std::nth_element(candidates->begin(), candidates->begin() + (k - 1), candidates->end(), Likelier);
  candidates->resize(k);
}

void KeepTopP(float top_p, std::vector<Candidate>* candidates) {
  if (top_p < 1.0f) KeepShare(top_p, Likelier, candidates);
}

void KeepMinP(float min_p, std::vector<Candidate>* candidates) {
  if (min_p <= 0.0f) return;
  Weight largest = 0;
  for (const Candidate& candidate : *candidates) largest = std::max(largest, candidate.weight);
  const Weight least = ShareOf(min_p, largest);
  std::erase_if(*candidates,
                [least](const Candidate& candidate) { return candidate.weight < least; });
}

void KeepTypicalP(float typical_p, float scale, float shift, std::vector<Candidate>* candidates) {
  if (typical_p >= 1.0f) return;
  __extension__ using Wide = __int128;
  // r is in [-28, 0], because its weight is not 0.
  const auto relative = [scale, shift](const Candidate& candidate) {
    return static_cast<int64_t>((candidate.logit * scale - shift) * 0x1p32f);
  };
  Wide weighted = 0;
  for (const Candidate& candidate : *candidates)
    weighted += Wide{relative(candidate)} * static_cast<int64_t>(candidate.weight);
  const int64_t mean = static_cast<int64_t>(weighted / static_cast<Wide>(Sum(*candidates)));
  const auto before = [&](const Candidate& a, const Candidate& b) {
    const int64_t distance_a = std::abs(relative(a) - mean);
    const int64_t distance_b = std::abs(relative(b) - mean);
    return distance_a != distance_b ? distance_a < distance_b : Likelier(a, b);
  };
  KeepShare(typical_p, before, candidates);
}

TokenId Draw(uint64_t bits, std::vector<Candidate>* candidates) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(candidates->begin(), candidates->end(), by_id)) {
    std::sort(candidates->begin(), candidates->end(), by_id);
  }
  uint64_t left = ScaleToBound(bits, Sum(*candidates));
  for (const Candidate& candidate : *candidates) {
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  return candidates->back().id;  // not reached: left starts below the sum
}

}  // namespace slipstream::decode
