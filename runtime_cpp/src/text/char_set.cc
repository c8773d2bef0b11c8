#include "text/char_set.h"

#include <algorithm>

namespace slipstream::text {

void CharSet::Add(char32_t first, char32_t last) {
  for (char32_t c = first; c <= last && c < 128; ++c) low_[c >> 6] |= uint64_t{1} << (c & 63);
  // Takes the place of those that it touches.
  const auto begin =
      std::lower_bound(ranges_.begin(), ranges_.end(), first,
                       [](const Range& range, char32_t c) { return range.second + 1 < c; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->second);
  }
  ranges_.insert(ranges_.erase(begin, end), Range{first, last});
}

void CharSet::Add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Join();
}

void CharSet::Intersect(const CharSet& other) {
  CharSet outside = other;
  outside.Invert();
  Invert();
  Add(outside);
  Invert();
}

void CharSet::Invert() {
  std::vector<Range> gaps;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (next < first) gaps.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next < kLimit) gaps.emplace_back(next, kLimit - 1);
  ranges_ = std::move(gaps);
  RenewLow();
}

bool CharSet::ContainsHigh(char32_t c) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), c,
                       [](char32_t x, const Range& range) { return x < range.first; });
  return behind != ranges_.begin() && c <= std::prev(behind)->second;
}

void CharSet::Join() {
  std::sort(ranges_.begin(), ranges_.end());
  size_t size = 0;
  for (const Range& range : ranges_) {
    if (size > 0 && range.first <= ranges_[size - 1].second + 1) {
      ranges_[size - 1].second = std::max(ranges_[size - 1].second, range.second);
    } else {
      ranges_[size++] = range;
    }
  }
  ranges_.resize(size);
  RenewLow();
}

void CharSet::RenewLow() {
  low_[0] = low_[1] = 0;
  for (const auto& [first, last] : ranges_) {
    for (char32_t c = first; c <= last && c < 128; ++c) low_[c >> 6] |= uint64_t{1} << (c & 63);
  }
}

}  // namespace slipstream::text
