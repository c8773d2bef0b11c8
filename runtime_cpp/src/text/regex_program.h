// A small backtracking matcher for split patterns that have no hand-written one: Oniguruma's syntax
// as far as tokenizer files use it, over the same Unicode tables. Every other construct is refused
// by name rather than guessed at.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/char_set.h"
#include "text/split_pattern.h"

namespace slipstream::text {

struct RegexInstruction {
  enum Op : uint8_t {
    kSet,        // one character of sets[x]
    kRepeatSet,  // sets[x], from `min` to `max` times, greedily; possessive: gives nothing back
    kFork,       // go on at x; on failure at y
    kJump,       // go on at x
    kAssert,     // the anchor x holds here
    // The program from the next instruction on, up to its kMatch, runs on its own; then go on at x.
    kAtomic,         // it must match; nothing of it is given back
    kLookahead,      // it must match, and takes nothing
    kNotLookahead,   // it must not match
    kLookbehind,     // it must match `min` to `max` characters that end here
    kNotLookbehind,  // it must not
    kMatch,
  };
  enum Anchor : uint8_t {
    kLineBegin,        // ^
    kLineEnd,          // $
    kTextBegin,        // \A
    kTextEnd,          // \z
    kLastLineEnd,      // \Z
    kWordBoundary,     // \b
    kNotWordBoundary,  // \B
  };
  Op op;
  bool possessive = false;
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t min = 0;
  uint32_t max = 0;
};

struct RegexProgram {
  std::vector<RegexInstruction> code;
  std::vector<CharSet> sets;
};

/// Compiles `regex` (valid UTF-8). kInvalidArgument naming the construct and its place when it is
/// wrong or not supported; the message lists what is supported.
Result<RegexProgram> CompileRegex(std::string_view regex);

/// A pattern that runs a compiled program.
Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex);

}  // namespace slipstream::text
