// How often a part of a regular expression matches, and how many characters that takes.
#pragma once

#include <cstdint>

#include "text/regex_source.h"

namespace slipstream::text {

constexpr uint32_t kUnbounded = ~uint32_t{0};

struct Quantifier {
  enum Mode : uint8_t { kGreedy, kLazy, kPossessive };
  uint32_t min = 1;
  uint32_t max = 1;
  Mode mode = kGreedy;
  bool braces = false;
};

/// How many characters a part can match.
struct Length {
  uint32_t min = 0;
  uint32_t max = 0;
};

inline uint32_t AddCounts(uint32_t a, uint32_t b) {
  return a > kUnbounded - b ? kUnbounded : a + b;
}
inline Length operator+(Length a, Length b) {
  return {AddCounts(a.min, b.min), AddCounts(a.max, b.max)};
}
Length operator*(Length length, const Quantifier& times);

/// Reads a quantifier: * + ? {n} {m,n} {m,} {,n}, with ? (lazy) or + (possessive) behind it where
/// the engine takes them as parts of it. False when there is none, or after an error.
bool TakeQuantifier(RegexSource* source, Quantifier* quantifier);

}  // namespace slipstream::text
