#include <string>

#include "text/regex_program.h"

namespace slipstream::text {
namespace {

// Steps that one search may take, per byte of text and in all: far more than real patterns need,
// and an end for patterns that would take exponential time.
constexpr size_t kStepsPerByte = 200;
constexpr size_t kBaseSteps = 1'000'000;

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
  Matcher(const RegexProgram& program, std::string_view text, size_t steps)
      : program_(program), text_(text), steps_(steps) {}

  bool exhausted() const { return steps_ == 0; }

  // Runs from `pc` at `position`; the end of the match, or npos.
  size_t Run(uint32_t pc, size_t position) {
    const size_t base = choices_.size();
    while (steps_ > 0) {
      --steps_;
      const RegexInstruction& in = program_.code[pc];
      bool go_on = true;
      switch (in.op) {
        case RegexInstruction::kMatch:
          choices_.resize(base);
          return position;
        case RegexInstruction::kSet:
          go_on = Step(in.x, &position);
          ++pc;
          break;
        case RegexInstruction::kRepeatSet:
          go_on = Repeat(in, pc + 1, &position);
          ++pc;
          break;
        case RegexInstruction::kFork:
          choices_.push_back({in.y, position, position});
          pc = in.x;
          break;
        case RegexInstruction::kJump:
          pc = in.x;
          break;
        case RegexInstruction::kLookahead:
        case RegexInstruction::kNotLookahead: {
          const bool found = Run(pc + 1, position) != std::string_view::npos;
          go_on = found == (in.op == RegexInstruction::kLookahead);
          pc = in.x;
          break;
        }
      }
      if (go_on) continue;
      if (choices_.size() == base) return std::string_view::npos;
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
    return std::string_view::npos;
  }

 private:
  bool Step(uint32_t set, size_t* position) const {
    if (*position >= text_.size()) return false;
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
    if (in.mode == RegexInstruction::kGreedy && *position > low) {
      const size_t previous = *position - DecodeUtf8Before(text_, *position).size;
      choices_.push_back({next, low, previous});
    }
    return true;
  }

  const RegexProgram& program_;
  std::string_view text_;
  size_t steps_;
  std::vector<Choice> choices_;
};

class RegexPattern final : public SplitPattern {
 public:
  explicit RegexPattern(RegexProgram program) : program_(std::move(program)) {}

  FindResult Find(std::string_view text, size_t from, Span* match) const override {
    Matcher matcher(program_, text, kBaseSteps + kStepsPerByte * (text.size() - from));
    for (size_t begin = from; begin < text.size();) {
      const size_t end = matcher.Run(0, begin);
      if (matcher.exhausted()) return FindResult::kTooHard;
      if (end != std::string_view::npos) {
        *match = {begin, end};
        return FindResult::kFound;
      }
      begin += DecodeUtf8(text, begin).size;
    }
    return FindResult::kNone;
  }

 private:
  RegexProgram program_;
};

// Whether some path from `pc` reaches kMatch without taking a character; lookaheads count as
// passed.
bool CanBeEmpty(const RegexProgram& program) {
  std::vector<bool> seen(program.code.size());
  std::vector<uint32_t> open = {0};
  while (!open.empty()) {
    const uint32_t pc = open.back();
    open.pop_back();
    if (seen[pc]) continue;
    seen[pc] = true;
    const RegexInstruction& in = program.code[pc];
    switch (in.op) {
      case RegexInstruction::kMatch:
        return true;
      case RegexInstruction::kSet:
        break;
      case RegexInstruction::kRepeatSet:
        if (in.min == 0) open.push_back(pc + 1);
        break;
      case RegexInstruction::kFork:
        open.push_back(in.y);
        open.push_back(in.x);
        break;
      case RegexInstruction::kJump:
      case RegexInstruction::kLookahead:
      case RegexInstruction::kNotLookahead:
        open.push_back(in.x);
        break;
    }
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex) {
  Result<RegexProgram> program = CompileRegex(regex);
  if (!program.ok()) return program.status();
  if (CanBeEmpty(*program)) {
    return Status(StatusCode::kInvalidArgument,
                  "the pattern can match an empty string, which is not supported");
  }
  return std::unique_ptr<SplitPattern>(std::make_unique<RegexPattern>(std::move(*program)));
}

}  // namespace slipstream::text
