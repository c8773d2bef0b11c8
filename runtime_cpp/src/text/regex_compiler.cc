#include <algorithm>
#include <optional>
#include <string>

#include "text/regex_program.h"

namespace slipstream::text {
namespace {

// Real patterns have a few dozen instructions. The limits keep hostile ones from using up memory or
// the stack.
constexpr size_t kMaxInstructions = 4096;
constexpr int kMaxDepth = 32;
constexpr uint32_t kMaxCount = 1000;

constexpr std::string_view kSupported =
    "supported are literals, ., [...], \\s, \\S, \\d, \\p{general category}, groups (...), "
    "(?:...), (?i:...), "
    "lookahead (?=...) (?!...), | and the quantifiers * + ? {m,n}, greedy or with a + behind";

constexpr CategorySet kAllCategories = (CategorySet{1} << kGeneralCategoryCount) - 1;

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Recursive descent; instructions are emitted as it goes. The first error stops it.
class Compiler {
 public:
  explicit Compiler(std::string_view regex) : regex_(regex) {}

  Result<RegexProgram> Run() {
    Alternatives(0);
    if (error_.empty() && position_ < regex_.size()) Fail("unbalanced ')'");
    Emit({RegexInstruction::kMatch});
    if (!error_.empty()) return Status(StatusCode::kInvalidArgument, error_);
    return std::move(program_);
  }

 private:
  using Op = RegexInstruction::Op;

  bool Fail(std::string_view what) {
    if (error_.empty()) {
      error_ = std::string(what) + " at byte " + std::to_string(position_) + " of the pattern; " +
               std::string(kSupported);
    }
    return false;
  }
  bool ok() const { return error_.empty(); }
  bool At(std::string_view s) const { return regex_.substr(position_).starts_with(s); }
  bool Take(std::string_view s) {
    if (!At(s)) return false;
    position_ += s.size();
    return true;
  }
  char32_t TakeChar() {
    const Utf8Char c = DecodeUtf8(regex_, position_);
    position_ += c.size;
    return c.code_point;
  }

  uint32_t Here() const { return static_cast<uint32_t>(program_.code.size()); }
  uint32_t Emit(RegexInstruction instruction) {
    if (program_.code.size() >= kMaxInstructions) {
      Fail("too large (more than 4096 instructions)");
      return 0;
    }
    program_.code.push_back(instruction);
    return Here() - 1;
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
  static void ShiftTargets(RegexInstruction* instruction, uint32_t from, uint32_t by) {
    const bool has_x = instruction->op == Op::kFork || instruction->op == Op::kJump ||
                       instruction->op == Op::kLookahead || instruction->op == Op::kNotLookahead;
    if (has_x && instruction->x >= from) instruction->x += by;
    if (instruction->op == Op::kFork && instruction->y >= from) instruction->y += by;
  }

  // a|b|c  ->  fork L1, L2; L1: a; jump end; L2: fork ...
  void Alternatives(int depth) {
    if (depth > kMaxDepth) {
      Fail("groups nested deeper than 32 levels");
      return;
    }
    std::vector<uint32_t> jumps;
    while (ok()) {
      const uint32_t begin = Here();
      Sequence(depth);
      if (!ok() || !Take("|")) break;
      InsertAt(begin, {Op::kFork, RegexInstruction::kGreedy, begin + 1});
      jumps.push_back(Emit({Op::kJump}));
      if (ok()) program_.code[begin].y = Here();
    }
    for (const uint32_t jump : jumps) {
      if (ok()) program_.code[jump].x = Here();
    }
  }

  void Sequence(int depth) {
    previous_letter_ = 0;
    while (ok() && position_ < regex_.size() && !At("|") && !At(")")) Quantified(depth);
    previous_letter_ = 0;
  }

  void Quantified(int depth) {
    const uint32_t begin = Here();
    std::optional<CharSet> set;
    if (At("(")) {
      previous_letter_ = 0;
      if (Group(depth)) return;  // a lookahead takes no quantifier
    } else {
      set = Atom();
      if (!ok()) return;
    }
    uint32_t min = 1;
    uint32_t max = 1;
    bool braces = false;
    if (!Quantifier(&min, &max, &braces)) {
      if (set) Emit({Op::kSet, RegexInstruction::kGreedy, AddSet(std::move(*set))});
      return;
    }
    previous_letter_ = 0;
    if (At("?")) {
      Fail("a lazy quantifier");
      return;
    }
    const bool plus = At("+");
    if (plus && (braces || !set)) {
      Fail("a possessive quantifier on a group or behind {m,n}");
      return;
    }
    if (plus) ++position_;
    if (At("*") || At("+") || At("?") || At("{")) {
      Fail("a quantifier behind a quantifier");
      return;
    }
    if (set) {
      Emit({Op::kRepeatSet, plus ? RegexInstruction::kPossessive : RegexInstruction::kGreedy,
            AddSet(std::move(*set)), 0, min, max});
    } else {
      RepeatGroup(begin, min, max);
    }
  }

  // Only `?` of a group occurs in split patterns. A loop over a group that may match nothing has
  // its own rules in every engine, so loops over groups are refused.
  void RepeatGroup(uint32_t begin, uint32_t min, uint32_t max) {
    if (min != 0 || max != 1) {
      Fail("a quantifier other than ? on a group");
      return;
    }
    InsertAt(begin, {Op::kFork, RegexInstruction::kGreedy, begin + 1});
    if (ok()) program_.code[begin].y = Here();
  }

  // True when the group was a lookahead.
  bool Group(int depth) {
    const bool outer_case = ignore_case_;
    std::optional<Op> look;
    if (Take("(?:")) {
    } else if (Take("(?i:")) {
      ignore_case_ = true;
    } else if (Take("(?=")) {
      look = Op::kLookahead;
    } else if (Take("(?!")) {
      look = Op::kNotLookahead;
    } else if (At("(?")) {
      Fail("an unknown group (?...)");
      return false;
    } else {
      Take("(");
    }
    const uint32_t at = look ? Emit({*look}) : 0;
    Alternatives(depth + 1);
    if (look) {
      Emit({Op::kMatch});
      if (ok()) program_.code[at].x = Here();
    }
    ignore_case_ = outer_case;
    if (ok() && !Take(")")) Fail("a group without ')'");
    if (look && ok() && (At("*") || At("+") || At("?") || At("{")))
      Fail("a quantifier behind a lookahead");
    return look.has_value();
  }

  bool Quantifier(uint32_t* min, uint32_t* max, bool* braces) {
    if (Take("*")) {
      *min = 0, *max = RegexProgram::kUnbounded;
    } else if (Take("+")) {
      *min = 1, *max = RegexProgram::kUnbounded;
    } else if (Take("?")) {
      *min = 0, *max = 1;
    } else if (At("{")) {
      *braces = true;
      ++position_;
      if (!Number(min)) return Fail("wrong {m,n}");
      *max = *min;
      if (Take(",")) {
        if (At("}")) {
          *max = RegexProgram::kUnbounded;
        } else if (!Number(max)) {
          return Fail("wrong {m,n}");
        }
      }
      if (!Take("}") || *max < *min || *max == 0) return Fail("wrong {m,n}");
    } else {
      return false;
    }
    return true;
  }

  bool Number(uint32_t* value) {
    const size_t begin = position_;
    *value = 0;
    while (position_ < regex_.size() && regex_[position_] >= '0' && regex_[position_] <= '9' &&
           *value <= kMaxCount) {
      *value = *value * 10 + (regex_[position_++] - '0');
    }
    return position_ > begin && *value <= kMaxCount;
  }

  uint32_t AddSet(CharSet set) {
    program_.sets.push_back(std::move(set));
    return static_cast<uint32_t>(program_.sets.size() - 1);
  }

  CharSet Atom() {
    CharSet set;
    if (Take(".")) {
      set.ranges = {{'\n', '\n'}};
      set.negated = true;
    } else if (Take("[")) {
      Class(&set);
    } else if (At("\\")) {
      Escape(&set, false);
    } else if (At("^") || At("$") || At("*") || At("+") || At("?") || At("{")) {
      Fail(std::string("'") + regex_[position_] + "' in this place");
    } else {
      Literal(TakeChar(), &set);
    }
    if (!set.ranges.empty() || ok()) NoteLetter(set);
    return set;
  }

  void Literal(char32_t c, CharSet* set) {
    set->ranges.push_back({c, c});
    if (!ignore_case_) return;
    if (c >= 0x80) {
      Fail("a character outside ASCII under (?i:...)");
      return;
    }
    if (!IsAsciiLetter(c)) return;
    set->ranges.push_back({c ^ 0x20, c ^ 0x20});
    if ((c | 0x20) == 's') set->ranges.push_back({0x17F, 0x17F});    // long s
    if ((c | 0x20) == 'k') set->ranges.push_back({0x212A, 0x212A});  // Kelvin sign
  }

  // Without regard to case, the engine also matches ligatures and the sharp s for these pairs of
  // letters.
  void NoteLetter(const CharSet& set) {
    const char32_t c = ignore_case_ && !set.ranges.empty() ? set.ranges[0].first | 0x20 : 0;
    const auto pair = [&](char32_t a, char32_t b) { return previous_letter_ == a && c == b; };
    if (pair('f', 'f') || pair('f', 'i') || pair('f', 'l') || pair('s', 's') || pair('s', 't')) {
      Fail("the letters ff, fi, fl, ss or st under (?i:...)");
    }
    previous_letter_ = c;
  }

  // \x at position_. Inside a class, sets are added to `set`. Returns the code point of a single
  // character.
  std::optional<char32_t> Escape(CharSet* set, bool in_class) {
    ++position_;
    if (position_ >= regex_.size()) {
      Fail("a backslash at the end");
      return {};
    }
    if (Take("s")) {
      set->space = true;
    } else if (Take("S")) {
      set->not_space = true;
    } else if (Take("d")) {
      set->categories |= CategoryBit(kNd);
    } else if (Take("p{")) {
      Property(set, false);
    } else if (Take("P{")) {
      Property(set, true);
    } else {
      const char32_t c = EscapedChar();
      if (ok() && !in_class) Literal(c, set);
      return c;
    }
    return {};
  }

  void Property(CharSet* set, bool inverted) {
    const size_t end = regex_.find('}', position_);
    std::string_view name =
        regex_.substr(position_, end == std::string_view::npos ? end : end - position_);
    const CategorySet found = end == std::string_view::npos ? 0 : CategorySetNamed(name);
    if (found != 0) {
      set->categories |= inverted ? kAllCategories & ~found : found;
      position_ = end + 1;
      return;
    }
    Fail("the property '" + std::string(name.substr(0, 32)) + "'");
  }

  char32_t EscapedChar() {
    if (Take("n")) return '\n';
    if (Take("r")) return '\r';
    if (Take("t")) return '\t';
    if (Take("f")) return '\f';
    if (Take("u")) return Hex(4);
    if (Take("x")) return Hex(2);
    const char32_t c = TakeChar();
    const bool plain = c < 0x80 && !IsAsciiLetter(c) && !(c >= '0' && c <= '9');
    if (!plain) Fail("an unknown escape");
    return c;
  }

  char32_t Hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = position_ < regex_.size() ? regex_[position_] : ' ';
      const char32_t lower = static_cast<char32_t>(c) | 0x20;
      const bool number = c >= '0' && c <= '9';
      if (!number && !(lower >= 'a' && lower <= 'f')) {
        Fail("a wrong hexadecimal escape");
        return 0;
      }
      value = value * 16 + (number ? c - '0' : lower - 'a' + 10);
      ++position_;
    }
    // \x80 and above are bytes to the engine, not code points.
    if ((digits == 2 && value >= 0x80) || (value >= 0xD800 && value < 0xE000))
      Fail("a wrong hexadecimal escape");
    return value;
  }

  void Class(CharSet* set) {
    const bool negated = Take("^");
    if (negated && ignore_case_) Fail("a negated class under (?i:...)");
    if (At("]")) Fail("an empty class");
    while (ok() && !At("]")) {
      if (position_ >= regex_.size()) {
        Fail("a class without ']'");
        return;
      }
      if (At("[") || At("&&")) {
        Fail("a class inside a class");
        return;
      }
      ClassItem(set);
    }
    if (ok()) ++position_;
    set->negated = negated;
  }

  void ClassItem(CharSet* set) {
    std::optional<char32_t> low = At("\\") ? Escape(set, true) : std::optional(TakeChar());
    if (!ok() || !low) return;
    const bool range = At("-") && regex_.substr(position_ + 1, 1) != "]";
    if (!range) {
      Literal(*low, set);
      return;
    }
    ++position_;
    if (position_ >= regex_.size() || At("[")) {
      Fail("a wrong range in a class");
      return;
    }
    const std::optional<char32_t> high = At("\\") ? Escape(set, true) : std::optional(TakeChar());
    if (!ok()) return;
    if (!high || *high < *low) {
      Fail("a wrong range in a class");
    } else if (ignore_case_) {
      Fail("a range under (?i:...)");
    } else {
      set->ranges.push_back({*low, *high});
    }
  }

  std::string_view regex_;
  size_t position_ = 0;
  bool ignore_case_ = false;
  char32_t previous_letter_ = 0;
  RegexProgram program_;
  std::string error_;
};

}  // namespace

Result<RegexProgram> CompileRegex(std::string_view regex) { return Compiler(regex).Run(); }

}  // namespace slipstream::text
