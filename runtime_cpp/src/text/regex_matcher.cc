#include <string>
#include <utility>

#include "text/regex_program.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr size_t kNoMatch = std::string_view::npos;

// Paths that may be open at once: a bound on memory, far above what patterns over text need.
constexpr size_t kMaxChoices = size_t{1} << 20;

// What to try when the current path fails. With low < high the position itself steps back first,
// one character a time.
struct Choice {
  uint32_t pc;
  size_t low;
  size_t high;
};

// One search. Backtracking runs on an own stack, so that long texts cannot exhaust the thread's.
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text, size_t* steps)
      : program_(program), text_(text), limit_(text.size()), steps_(*steps) {}

  bool exhausted() const { return steps_ == 0; }
  // Whether anything since the last call depended on where the text ends.
  bool TakeReachedEnd() { return std::exchange(reached_end_, false); }

  // Runs from `pc` at `position`; the end of the match, or kNoMatch. A match must end at `end`
  // unless that is kNoMatch.
  size_t Run(uint32_t pc, size_t position, size_t end = kNoMatch) {
    const size_t base = choices_.size();
    while (steps_ > 0) {
      --steps_;
      const RegexInstruction& in = program_.code[pc];
      bool go_on = true;
      switch (in.op) {
        case RegexInstruction::kMatch:
          if (end == kNoMatch || position == end) {
            choices_.resize(base);
            return position;
          }
          go_on = false;
          break;
        case RegexInstruction::kSet:
          go_on = Step(in.x, &position);
          ++pc;
          break;
        case RegexInstruction::kRepeatSet:
          go_on = Repeat(in, pc + 1, &position);
          ++pc;
          break;
        case RegexInstruction::kFork:
          Push({in.y, position, position});
          pc = in.x;
          break;
        case RegexInstruction::kJump:
          pc = in.x;
          break;
        case RegexInstruction::kAssert:
          go_on = Holds(in.x, position);
          ++pc;
          break;
        case RegexInstruction::kAtomic: {
          const size_t behind = Run(pc + 1, position);
          go_on = behind != kNoMatch;
          position = behind;
          pc = in.x;
          break;
        }
        case RegexInstruction::kLookahead:
        case RegexInstruction::kNotLookahead: {
          const bool found = Run(pc + 1, position) != kNoMatch;
          go_on = found == (in.op == RegexInstruction::kLookahead);
          pc = in.x;
          break;
        }
        case RegexInstruction::kLookbehind:
        case RegexInstruction::kNotLookbehind:
          go_on = LooksBehind(in, pc + 1, position) == (in.op == RegexInstruction::kLookbehind);
          pc = in.x;
          break;
      }
      if (go_on) continue;
      if (choices_.size() == base) return kNoMatch;
      Choice& choice = choices_.back();
      pc = choice.pc;
      position = choice.high;
      if (choice.high == choice.low) {
        choices_.pop_back();
      } else {
        choice.high -= DecodeUtf8Before(text_, choice.high).size;
      }
    }
    choices_.resize(base);
    return kNoMatch;
  }

 private:
  bool AtEnd(size_t position) {
    const bool at_end = position >= text_.size();
    reached_end_ |= at_end;
    return at_end;
  }

  void Push(Choice choice) {
    if (choices_.size() == kMaxChoices) {
      steps_ = 0;
      return;
    }
    choices_.push_back(choice);
  }

  bool Step(uint32_t set, size_t* position) {
    if (AtEnd(*position) || *position >= limit_) return false;
    const Utf8Char c = DecodeUtf8(text_, *position);
    if (!program_.sets[set].Contains(c.code_point)) return false;
    *position += c.size;
    return true;
  }

  bool Repeat(const RegexInstruction& in, uint32_t next, size_t* position) {
    size_t low = *position;
    uint32_t count = 0;
    while (count < in.max && steps_ > 0) {
      if (!Step(in.x, position)) break;
      --steps_;
      ++count;
      if (count == in.min) low = *position;
    }
    if (count < in.min) return false;
    if (!in.possessive && *position > low) {
      const size_t previous = *position - DecodeUtf8Before(text_, *position).size;
      Push({next, low, previous});
    }
    return true;
  }

  // Whether the program at `pc` matches in.min to in.max characters that end at `position`.
  bool LooksBehind(const RegexInstruction& in, uint32_t pc, size_t position) {
    const size_t outer_limit = std::exchange(limit_, position);
    size_t begin = position;
    bool found = false;
    for (uint32_t count = 0; count <= in.max && steps_ > 0 && !found; ++count) {
      found = count >= in.min && Run(pc, begin, position) != kNoMatch;
      if (begin == 0) break;
      begin -= DecodeUtf8Before(text_, begin).size;
    }
    limit_ = outer_limit;
    return found;
  }

  bool WordAt(size_t position) {
    return !AtEnd(position) && CharClass::Of(DecodeUtf8(text_, position).code_point).IsEngineWord();
  }
  bool WordBefore(size_t position) const {
    return position > 0 &&
           CharClass::Of(DecodeUtf8Before(text_, position).code_point).IsEngineWord();
  }

  // As the engine has it, a line break at the end of the text starts no line.
  bool Holds(uint32_t anchor, size_t position) {
    const bool at_end = AtEnd(position);
    const bool behind_newline = position > 0 && text_[position - 1] == '\n';
    switch (anchor) {
      case RegexInstruction::kTextBegin:
        return position == 0;
      case RegexInstruction::kTextEnd:
        return at_end;
      case RegexInstruction::kLineBegin:
        return position == 0 || (behind_newline && !at_end);
      case RegexInstruction::kLineEnd:
        return at_end || text_[position] == '\n';
      case RegexInstruction::kLastLineEnd:
        return at_end || (text_[position] == '\n' && AtEnd(position + 1));
      default:
        return (WordAt(position) != WordBefore(position)) ==
               (anchor == RegexInstruction::kWordBoundary);
    }
  }

  const RegexProgram& program_;
  std::string_view text_;
  size_t limit_;  // up to here characters may be taken: in a lookbehind, up to where it stands
  size_t& steps_;
  bool reached_end_ = false;
  std::vector<Choice> choices_;
};

class RegexPattern final : public SplitPattern {
 public:
  explicit RegexPattern(RegexProgram program) : program_(std::move(program)) {
    for (const RegexInstruction& in : program_.code) {
      looks_back_ |= in.op == RegexInstruction::kAssert || in.op == RegexInstruction::kLookbehind ||
                     in.op == RegexInstruction::kNotLookbehind;
    }
  }

  FindResult Find(std::string_view text, size_t from, size_t* steps, Span* match) const override {
    return Search(text, from, /*stream=*/false, steps, match);
  }
  FindResult FindInStream(std::string_view text, size_t from, size_t* steps,
                          Span* match) const override {
    return Search(text, from, /*stream=*/true, steps, match);
  }
  bool LooksBack() const override { return looks_back_; }

 private:
  FindResult Search(std::string_view text, size_t from, bool stream, size_t* steps,
                    Span* match) const {
    Matcher matcher(program_, text, steps);
    for (size_t begin = from;;) {
      const size_t end = matcher.Run(0, begin);
      if (matcher.exhausted()) return FindResult::kTooHard;
      if (matcher.TakeReachedEnd() && stream) {
        *match = {begin, begin};
        return FindResult::kMore;
      }
      if (end != kNoMatch) {
        *match = {begin, end};
        return FindResult::kFound;
      }
      if (begin >= text.size()) return FindResult::kNone;
      begin += DecodeUtf8(text, begin).size;
    }
  }

  RegexProgram program_;
  bool looks_back_ = false;
};

}  // namespace

Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex) {
  Result<RegexProgram> program = CompileRegex(regex);
  if (!program.ok()) return program.status();
  return std::unique_ptr<SplitPattern>(std::make_unique<RegexPattern>(std::move(*program)));
}

}  // namespace slipstream::text
