#include <algorithm>
#include <optional>
#include <string>

#include "text/regex_class.h"
#include "text/regex_program.h"
#include "text/regex_quantifier.h"
#include "text/regex_source.h"

namespace slipstream::text {
namespace {

// Real patterns have a few dozen instructions. The limits keep hostile ones from using up memory,
// time or the stack.
constexpr size_t kMaxBytes = 16384;
constexpr size_t kMaxInstructions = 4096;
constexpr size_t kMaxSets = 512;
constexpr int kMaxDepth = 32;
constexpr uint32_t kMaxLookbehind = 255;

constexpr const char* kEmptyLoop = "a repeated group that can match nothing";

// Recursive descent; instructions are emitted as it goes. The first error stops it.
class Compiler {
 public:
  explicit Compiler(std::string_view regex) : source_(regex), classes_(&source_) {
    if (regex.size() > kMaxBytes) Fail("a length of more than 16384 bytes");
  }

  Result<RegexProgram> Run() {
    Alternatives(0);
    if (ok() && !source_.End()) Fail("a ')' without '('");
    Emit({RegexInstruction::kMatch});
    if (!ok()) return Status(StatusCode::kInvalidArgument, source_.error());
    return std::move(program_);
  }

 private:
  using Op = RegexInstruction::Op;

  bool Fail(std::string_view what) { return source_.Fail(what); }
  bool ok() const { return source_.ok(); }

  uint32_t Here() const { return static_cast<uint32_t>(program_.code.size()); }
  uint32_t Emit(RegexInstruction instruction) {
    if (program_.code.size() >= kMaxInstructions) {
      Fail("a size of more than 4096 instructions");
      return 0;
    }
    program_.code.push_back(instruction);
    return Here() - 1;
  }
  uint32_t EmitSet(Op op, CharSet set) {
    const auto same = std::find(program_.sets.begin(), program_.sets.end(), set);
    const auto index = static_cast<uint32_t>(same - program_.sets.begin());
    if (same == program_.sets.end()) {
      if (program_.sets.size() == kMaxSets) Fail("more than 512 different classes");
      program_.sets.push_back(std::move(set));
    }
    RegexInstruction instruction{op};
    instruction.x = index;
    return Emit(instruction);
  }

  static bool HasTarget(Op op) {
    return op != Op::kSet && op != Op::kRepeatSet && op != Op::kAssert && op != Op::kMatch;
  }
  static void ShiftTargets(RegexInstruction* instruction, uint32_t from, uint32_t by) {
    if (!HasTarget(instruction->op)) return;
    if (instruction->x >= from) instruction->x += by;
    if (instruction->op == Op::kFork && instruction->y >= from) instruction->y += by;
  }
  // Opens a place for one instruction at `place`, moving what follows; targets inside that part
  // move along.
  void InsertAt(uint32_t place, RegexInstruction instruction) {
    Emit({Op::kMatch});
    if (!ok()) return;
    auto& code = program_.code;
    for (size_t i = code.size() - 1; i > place; --i) {
      code[i] = code[i - 1];
      ShiftTargets(&code[i], place, 1);
    }
    code[place] = instruction;
  }

  // a|b|c  ->  fork L1, L2; L1: a; jump end; L2: fork ...
  Length Alternatives(int depth) {
    Length length{kUnbounded, 0};
    if (depth > kMaxDepth) {
      Fail("groups nested deeper than 32 levels");
      return length;
    }
    std::vector<uint32_t> jumps;
    while (ok()) {
      const uint32_t begin = Here();
      const Length part = Sequence(depth);
      length = {std::min(length.min, part.min), std::max(length.max, part.max)};
      if (!ok() || !source_.Take("|")) break;
      InsertAt(begin, {Op::kFork, false, begin + 1});
      jumps.push_back(Emit({Op::kJump}));
      if (ok()) program_.code[begin].y = Here();
    }
    for (const uint32_t jump : jumps) {
      if (ok()) program_.code[jump].x = Here();
    }
    return length;
  }

  Length Sequence(int depth) {
    Length length;
    previous_letter_ = 0;
    std::string_view comment;
    while (ok() && !source_.End() && !source_.At("|") && !source_.At(")")) {
      if (source_.Take("(?#")) {
        if (!source_.TakeUntil(")", &comment)) Fail("a comment without ')'");
      } else {
        length = length + Quantified(depth);
      }
    }
    previous_letter_ = 0;
    return length;
  }

  Length Quantified(int depth) {
    const uint32_t begin = Here();
    std::optional<CharSet> set;
    Length length;
    bool repeatable = true;
    if (source_.At("(")) {
      previous_letter_ = 0;
      length = Group(depth, &repeatable);
    } else if (TakeAnchor()) {
      previous_letter_ = 0;
      repeatable = false;
    } else {
      set = classes_.ReadAtom();
      NoteLetter();
      length = {1, 1};
    }
    Quantifier quantifier;
    if (!ok()) return length;
    if (!TakeQuantifier(&source_, &quantifier)) {
      if (set) EmitSet(Op::kSet, std::move(*set));
      return length;
    }
    previous_letter_ = 0;
    const char32_t letter = set && classes_.ignore_case ? classes_.literal() : 0;
    if (quantifier.braces && (letter == 's' || letter == 'f'))
      Fail("the letters f and s with {m,n} under (?i:...)");
    if (!repeatable) Fail("a quantifier behind an anchor or a lookaround");
    const bool more = source_.At("*") || source_.At("{") ||
                      ((!quantifier.braces || quantifier.mode == Quantifier::kLazy) &&
                       (source_.At("+") || source_.At("?")));
    if (more) Fail("a quantifier behind a quantifier");
    if (!ok()) return length;
    const bool optional = quantifier.min == 0 && quantifier.max == 1;
    // Engines differ in how such a loop ends.
    if (length.min == 0 && !optional) Fail(kEmptyLoop);
    if (set && quantifier.mode != Quantifier::kLazy) {
      const uint32_t at = EmitSet(Op::kRepeatSet, std::move(*set));
      if (!ok()) return length;
      RegexInstruction& repeat = program_.code[at];
      repeat.possessive = quantifier.mode == Quantifier::kPossessive;
      repeat.min = quantifier.min;
      repeat.max = quantifier.max;
    } else {
      if (set) EmitSet(Op::kSet, std::move(*set));
      Repeat(begin, quantifier);
    }
    length = length * quantifier;
    // Behind braces, a + repeats what they made, and a ? makes it optional.
    if (!quantifier.braces || quantifier.mode == Quantifier::kLazy) return length;
    Quantifier outer;
    if (source_.Take("+")) {
      outer = {1, kUnbounded};
    } else if (source_.Take("?")) {
      outer = {0, 1};
    } else {
      return length;
    }
    if (length.min == 0 && outer.min > 0) Fail(kEmptyLoop);
    Repeat(begin, outer);
    return length * outer;
  }

  // Repeats the code from `begin` on: copies for what must be there, then a loop or nested options.
  void Repeat(uint32_t begin, const Quantifier& quantifier) {
    if (!ok()) return;
    const std::vector<RegexInstruction> body(program_.code.begin() + begin, program_.code.end());
    program_.code.resize(begin);
    const bool atomic = quantifier.mode == Quantifier::kPossessive;
    if (atomic) Emit({Op::kAtomic});
    const auto copy = [&] {
      const uint32_t by = Here() - begin;
      for (RegexInstruction instruction : body) {
        ShiftTargets(&instruction, 0, by);
        Emit(instruction);
        if (!ok()) return;
      }
    };
    const auto aim = [&](uint32_t fork, uint32_t out) {
      if (!ok()) return;
      RegexInstruction& in = program_.code[fork];
      in.x = fork + 1;
      in.y = out;
      if (quantifier.mode == Quantifier::kLazy) std::swap(in.x, in.y);
    };
    for (uint32_t i = 0; i < quantifier.min && ok(); ++i) copy();
    if (quantifier.max == kUnbounded) {
      const uint32_t fork = Emit({Op::kFork});
      copy();
      Emit({Op::kJump, false, fork});
      aim(fork, Here());
    } else {
      std::vector<uint32_t> forks;
      for (uint32_t i = quantifier.min; i < quantifier.max && ok(); ++i) {
        forks.push_back(Emit({Op::kFork}));
        copy();
      }
      for (const uint32_t fork : forks) aim(fork, Here());
    }
    if (!atomic) return;
    Emit({Op::kMatch});
    if (ok()) program_.code[begin].x = Here();
  }

  bool TakeAnchor() {
    constexpr std::pair<std::string_view, RegexInstruction::Anchor> kAnchors[] = {
        {"^", RegexInstruction::kLineBegin},        {"$", RegexInstruction::kLineEnd},
        {"\\A", RegexInstruction::kTextBegin},      {"\\z", RegexInstruction::kTextEnd},
        {"\\Z", RegexInstruction::kLastLineEnd},    {"\\b", RegexInstruction::kWordBoundary},
        {"\\B", RegexInstruction::kNotWordBoundary}};
    for (const auto& [text, anchor] : kAnchors) {
      if (!source_.Take(text)) continue;
      Emit({Op::kAssert, false, anchor});
      return true;
    }
    return false;
  }

  // A group with its brackets. Lookarounds take no characters and no quantifier.
  Length Group(int depth, bool* repeatable) {
    const bool outer_case = classes_.ignore_case;
    const bool outer_dot = classes_.dot_takes_newline;
    std::optional<Op> look;
    bool atomic = false;
    bool to_the_end = false;
    constexpr std::pair<std::string_view, Op> kLooks[] = {{"(?=", Op::kLookahead},
                                                          {"(?!", Op::kNotLookahead},
                                                          {"(?<=", Op::kLookbehind},
                                                          {"(?<!", Op::kNotLookbehind}};
    for (const auto& [text, op] : kLooks) {
      if (!look && source_.Take(text)) look = op;
    }
    std::string_view name;
    if (look) {
      *repeatable = false;
    } else if (source_.Take("(?>")) {
      atomic = true;
    } else if (source_.Take("(?<")) {
      if (!source_.TakeUntil(">", &name)) Fail("a group's name without '>'");
    } else if (source_.Take("(?:")) {
    } else if (source_.Take("(?")) {
      to_the_end = TakeOptions();
      *repeatable = !to_the_end;
    } else {
      source_.Take("(");
    }
    const bool apart = look.has_value() || atomic;
    const bool outer_lookbehind = in_lookbehind_;
    if (look && in_lookbehind_) Fail("a lookaround in a lookbehind");
    in_lookbehind_ |= look == Op::kLookbehind || look == Op::kNotLookbehind;
    const uint32_t at = apart ? Emit({look.value_or(Op::kAtomic)}) : 0;
    Length length = ok() ? Alternatives(depth + 1) : Length{};
    if (apart) {
      Emit({Op::kMatch});
      if (ok()) program_.code[at].x = Here();
    }
    if (look) SetLook(at, &length);
    in_lookbehind_ = outer_lookbehind;
    classes_.ignore_case = outer_case;
    classes_.dot_takes_newline = outer_dot;
    // (?i) holds up to the end of the group around it, whose bracket is not its own.
    if (ok() && !to_the_end && !source_.Take(")")) Fail("a group without ')'");
    return length;
  }

  void SetLook(uint32_t at, Length* length) {
    if (!ok()) return;
    RegexInstruction& look = program_.code[at];
    if (look.op == Op::kLookbehind || look.op == Op::kNotLookbehind) {
      if (length->max > kMaxLookbehind) Fail("a lookbehind of more than 255 characters");
      look.min = length->min;
      look.max = length->max;
    }
    *length = {0, 0};
  }

  // Behind "(?": letters, a hyphen before those to switch off, and ':' or ')'. True for ')'.
  bool TakeOptions() {
    bool on = true;
    while (ok()) {
      if (source_.Take(":")) return false;
      if (source_.Take(")")) return true;
      if (source_.Take("-")) {
        on = false;
      } else if (source_.Take("i")) {
        classes_.ignore_case = on;
      } else if (source_.Take("m")) {
        classes_.dot_takes_newline = on;
      } else {
        Fail("an unknown group (?...)");
      }
    }
    return false;
  }

  // Without regard to case, the engine also matches ligatures and the sharp s for these pairs of
  // letters.
  void NoteLetter() {
    const char32_t c = classes_.ignore_case ? classes_.literal() : 0;
    const auto pair = [&](char32_t a, char32_t b) { return previous_letter_ == a && c == b; };
    if (pair('f', 'f') || pair('f', 'i') || pair('f', 'l') || pair('s', 's') || pair('s', 't'))
      Fail("the letters ff, fi, fl, ss or st under (?i:...)");
    previous_letter_ = c;
  }

  RegexSource source_;
  RegexClassReader classes_;
  char32_t previous_letter_ = 0;
  bool in_lookbehind_ = false;
  RegexProgram program_;
};

}  // namespace

Result<RegexProgram> CompileRegex(std::string_view regex) { return Compiler(regex).Run(); }

}  // namespace slipstream::text
