// Sets of code points, as the classes of a regular expression build them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace slipstream::text {

/// A set of code points: sorted ranges that do not touch. A value type; const calls are
/// thread-safe.
class CharSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // both ends belong to it

  CharSet() = default;
  static CharSet Of(char32_t first, char32_t last) {
    CharSet set;
    set.Add(first, last);
    return set;
  }
  /// The code points whose class `accepts`; reads the whole table.
  template <class Accepts>
  static CharSet Where(Accepts&& accepts) {
    CharSet set;
    for (char32_t c = 0; c < kLimit; ++c) {
      if (!accepts(CharClass::Of(c))) continue;
      if (!set.ranges_.empty() && set.ranges_.back().second + 1 == c) {
        set.ranges_.back().second = c;
      } else {
        set.ranges_.emplace_back(c, c);
      }
    }
    set.RenewLow();
    return set;
  }

  void Add(char32_t first, char32_t last);
  void Add(const CharSet& other);
  void Intersect(const CharSet& other);
  void Invert();

  bool empty() const { return ranges_.empty(); }
  /// Its only code point; 0 when it has none or more than one.
  char32_t Single() const {
    const bool one = ranges_.size() == 1 && ranges_[0].first == ranges_[0].second;
    return one ? ranges_[0].first : 0;
  }
  bool Contains(char32_t c) const {
    if (c < 128) return low_[c >> 6] >> (c & 63) & 1;
    return ContainsHigh(c);
  }
  bool operator==(const CharSet& other) const { return ranges_ == other.ranges_; }

 private:
  static constexpr char32_t kLimit = 0x110000;

  bool ContainsHigh(char32_t c) const;
  void Join();  // sorts the ranges and joins those that touch
  void RenewLow();

  std::vector<Range> ranges_;
  uint64_t low_[2] = {};  // the code points below 128 once more, one bit each
};

}  // namespace slipstream::text
