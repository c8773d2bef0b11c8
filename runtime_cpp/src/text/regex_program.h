// A small backtracking matcher for split patterns that have no hand-written one. It knows the
// constructs that such patterns use, over the same Unicode tables, and refuses every other one by
// name rather than guess at its meaning.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/split_pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {

/// A set of code points: ranges, general categories, white space.
struct CharSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;  // inclusive
  CategorySet categories = 0;
  bool space = false;      // \s
  bool not_space = false;  // \S inside a class
  bool negated = false;

  bool Contains(char32_t c) const {
    const CharClass cls = CharClass::Of(c);
    bool in = cls.In(categories) || (space && cls.IsSpace()) || (not_space && !cls.IsSpace());
    for (size_t i = 0; i < ranges.size() && !in; ++i)
      in = c >= ranges[i].first && c <= ranges[i].second;
    return in != negated;
  }
};

struct RegexInstruction {
  enum Op : uint8_t {
    kSet,        // one character of sets[x]
    kRepeatSet,  // sets[x], from `min` to `max` times, by `mode`
    kFork,       // go on at x; on failure at y
    kJump,       // go on at x
    kLookahead,  // the program from the next instruction on to its kMatch must match here; then go
                 // on at x
    kNotLookahead,  // it must not
    kMatch,
  };
  enum Mode : uint8_t { kGreedy, kPossessive };
  Op op;
  Mode mode = kGreedy;
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t min = 0;
  uint32_t max = 0;
};

struct RegexProgram {
  static constexpr uint32_t kUnbounded = ~uint32_t{0};
  std::vector<RegexInstruction> code;
  std::vector<CharSet> sets;
};

/// Compiles `regex` (valid UTF-8). kInvalidArgument naming the construct and its place when it is
/// wrong or not supported: supported are literals, . [...] \s \S \d \p{general category}, groups
/// (?:) (?i:), lookahead, | and greedy or possessive quantifiers.
Result<RegexProgram> CompileRegex(std::string_view regex);

/// A pattern that runs a compiled program. kInvalidArgument also when the expression can match
/// nothing at all.
Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex);

}  // namespace slipstream::text
