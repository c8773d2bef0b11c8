#include "text/regex_class.h"

#include <algorithm>
#include <utility>

#include "core/excerpt.h"

namespace slipstream::text {
namespace {

constexpr int kMaxClassDepth = 8;

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Characters that have no case, so that (?i:...) changes nothing about them. Some without case are
// missing: what is not here is refused.
bool IsCaseless(CharClass cls) {
  constexpr CategorySet kCaseless =
      kSetP | kSetZ | CategoryBit(kSm) | CategoryBit(kSc) | CategoryBit(kNd) | CategoryBit(kCc);
  return cls.In(kCaseless);
}

// The names of properties do not depend on case, spaces, hyphens and underscores.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return plain;
}

CategorySet CategoriesOf(const std::string& plain) {
  constexpr std::pair<std::string_view, CategorySet> kLongNames[] = {
      {"letter", kSetL}, {"mark", kSetM},      {"number", kSetN}, {"punctuation", kSetP},
      {"punct", kSetP},  {"separator", kSetZ}, {"symbol", kSetS}, {"other", kSetC}};
  for (const auto& [name, set] : kLongNames) {
    if (plain == name) return set;
  }
  std::string name = plain;
  if (!name.empty()) name[0] = static_cast<char>(name[0] & ~0x20);
  return CategorySetNamed(name);
}

// Of scripts and other properties; an empty set when there is no such name. `plain` is a name of
// \p{...} in small letters, or of a POSIX class with a colon in front.
CharSet SetNamed(const std::string& plain) {
  if (const CategorySet categories = CategoriesOf(plain); categories != 0)
    return CharSet::Where([=](CharClass c) { return c.In(categories); });
  const std::string name = plain.starts_with(':') ? plain.substr(1) : plain;
  constexpr std::pair<std::string_view, UnicodeProperty> kProperties[] = {
      {"han", UnicodeProperty::kHan},           {"hiragana", UnicodeProperty::kHiragana},
      {"katakana", UnicodeProperty::kKatakana}, {"hangul", UnicodeProperty::kHangul},
      {"latin", UnicodeProperty::kLatin},       {"cyrillic", UnicodeProperty::kCyrillic},
      {"alpha", UnicodeProperty::kAlphabetic},  {"alphabetic", UnicodeProperty::kAlphabetic},
      {"lower", UnicodeProperty::kLowercase},   {"lowercase", UnicodeProperty::kLowercase},
      {"upper", UnicodeProperty::kUppercase},   {"uppercase", UnicodeProperty::kUppercase}};
  for (const auto& [property_name, property] : kProperties) {
    if (name == property_name)
      return CharSet::Where([p = property](CharClass c) { return c.Has(p); });
  }
  if (name == "digit") return CharSet::Where([](CharClass c) { return c.In(CategoryBit(kNd)); });
  if (name == "space") return CharSet::Where([](CharClass c) { return c.IsSpace(); });
  if (plain == "word") return CharSet::Where([](CharClass c) { return c.IsEngineWord(); });
  if (name == "cntrl") return CharSet::Where([](CharClass c) { return c.In(CategoryBit(kCc)); });
  if (name == "alnum") {
    return CharSet::Where(
        [](CharClass c) { return c.Has(UnicodeProperty::kAlphabetic) || c.In(CategoryBit(kNd)); });
  }
  if (name == "punct") return CharSet::Where([](CharClass c) { return c.In(kSetP | kSetS); });
  CharSet set;
  if (name == "blank") {
    set = CharSet::Where([](CharClass c) { return c.In(CategoryBit(kZs)); });
    set.Add('\t', '\t');
  } else if (name == "ascii") {
    set.Add(0, 0x7F);
  } else if (name == "any") {
    set.Invert();
  } else if (name == "xdigit") {
    set.Add('0', '9');
    set.Add('a', 'f');
    set.Add('A', 'F');
  }
  return set;
}

}  // namespace

const CharSet& RegexClassReader::Named(const std::string& name) {
  const auto it = named_.find(name);
  return it != named_.end() ? it->second : named_.emplace(name, SetNamed(name)).first->second;
}

bool RegexClassReader::AddNamed(std::string_view name, bool inverted, CharSet* set) {
  const CharSet& found = Named(std::string(name));
  if (found.empty()) return false;
  CharSet part = found;
  if (inverted) part.Invert();
  set->Add(part);
  return true;
}

CharSet RegexClassReader::ReadAtom() {
  CharSet set;
  literal_ = 0;
  if (source_.Take(".")) {
    if (!dot_takes_newline) set.Add('\n', '\n');
    set.Invert();
  } else if (source_.Take("[")) {
    ReadClass(&set, 0);
  } else if (source_.At("\\")) {
    if (const auto c = ReadEscape(&set, false); c && source_.ok()) AddLiteral(*c, &set);
  } else if (source_.At("*") || source_.At("+") || source_.At("?") || source_.At("{") ||
             source_.At("]") || source_.At("}")) {
    source_.Fail("a quantifier or a bracket in this place");
  } else {
    AddLiteral(source_.TakeChar(), &set);
  }
  return set;
}

void RegexClassReader::AddLiteral(char32_t c, CharSet* set) {
  set->Add(c, c);
  literal_ = c;
  if (!ignore_case) return;
  if (IsAsciiLetter(c)) literal_ |= 0x20;
  if (c >= 0x80 && !IsCaseless(CharClass::Of(c))) {
    source_.Fail("a letter outside ASCII under (?i:...)");
    return;
  }
  FoldClass(set);
}

// Adds the other case of the letters. Without regard to case, the engine also takes the long s and
// the Kelvin sign, and strings for a single character such as the sharp s: classes with letters
// outside ASCII are refused.
void RegexClassReader::FoldClass(CharSet* set) {
  CharSet foreign = *set;
  foreign.Intersect(CharSet::Of(0x80, 0x10FFFF));
  if (!foreign.empty()) {
    CharSet cased = Named("caseless").empty() ? named_["caseless"] = CharSet::Where(IsCaseless)
                                              : Named("caseless");
    cased.Invert();
    foreign.Intersect(cased);
  }
  if (!foreign.empty()) {
    source_.Fail("a class with letters outside ASCII under (?i:...)");
    return;
  }
  for (char32_t c = 'a'; c <= 'z'; ++c) {
    const char32_t upper = c - 'a' + 'A';
    if (!set->Contains(c) && !set->Contains(upper)) continue;
    set->Add(c, c);
    set->Add(upper, upper);
    if (c == 's') set->Add(0x17F, 0x17F);
    if (c == 'k') set->Add(0x212A, 0x212A);
  }
}

// Behind the '['. `depth` is that of classes in classes.
void RegexClassReader::ReadClass(CharSet* set, int depth) {
  if (depth > kMaxClassDepth) {
    source_.Fail("classes nested deeper than 8 levels");
    return;
  }
  const bool negated = source_.Take("^");
  if (source_.At("]")) source_.Fail("an empty class");
  CharSet part;
  bool intersected = false;
  const auto intersect = [&] {
    if (intersected) part.Intersect(*set);
    *set = std::exchange(part, {});
    intersected = true;
  };
  while (source_.ok() && !source_.Take("]")) {
    if (source_.End()) {
      source_.Fail("a class without ']'");
    } else if (source_.At("&&")) {
      if (ignore_case) source_.Fail("&& under (?i:...)");
      source_.Take("&&");
      intersect();
    } else if (!ReadClassItem(&part, depth)) {
      return;
    }
  }
  intersect();
  if (depth == 0 && !negated) {
    literal_ = set->Single();
    if (ignore_case && IsAsciiLetter(literal_)) literal_ |= 0x20;
  }
  if (ignore_case && depth == 0) FoldClass(set);
  if (negated) set->Invert();
}

bool RegexClassReader::ReadClassItem(CharSet* set, int depth) {
  std::optional<char32_t> low;
  if (source_.Take("[:")) {
    ReadPosix(set);
  } else if (source_.Take("[")) {
    CharSet inner;
    ReadClass(&inner, depth + 1);
    set->Add(inner);
  } else {
    if (source_.At("--")) return source_.Fail("two hyphens in a class");
    low = source_.At("\\") ? ReadEscape(set, true) : std::optional(source_.TakeChar());
  }
  if (!source_.ok()) return false;
  if (!source_.At("-") || source_.At("-]")) {
    if (low) set->Add(*low, *low);
    return source_.ok();
  }
  if (!low) return source_.Fail("a hyphen behind a class");
  ReadRange(*low, set);
  return source_.ok();
}

void RegexClassReader::ReadRange(char32_t low, CharSet* set) {
  source_.Take("-");
  CharSet ignored;
  std::optional<char32_t> high;
  if (source_.At("\\")) {
    high = ReadEscape(&ignored, true);
  } else if (!source_.End() && !source_.At("[")) {
    high = source_.TakeChar();
  }
  if (!source_.ok()) return;
  if (!high || *high < low) {
    source_.Fail("a wrong range in a class");
    return;
  }
  set->Add(low, *high);
  // A hyphen behind a range is one itself.
  if (source_.At("-") && !source_.At("--") && !source_.At("-]")) {
    source_.Take("-");
    set->Add('-', '-');
  }
}

// Behind the "[:".
void RegexClassReader::ReadPosix(CharSet* set) {
  std::string_view name;
  const bool inverted = source_.Take("^");
  if (!source_.TakeUntil(":]", &name) || !AddNamed(":" + std::string(name), inverted, set))
    source_.Fail("the class '[:" + core::Excerpt(name) + ":]'");
}

// \x at the current place. Sets are added to `set`; of a single character the code point is given.
std::optional<char32_t> RegexClassReader::ReadEscape(CharSet* set, bool in_class) {
  source_.Take("\\");
  if (source_.End()) {
    source_.Fail("a backslash at the end");
    return {};
  }
  constexpr std::pair<std::string_view, const char*> kSets[] = {
      {"s", "space"}, {"d", "digit"}, {"w", "word"}, {"h", "xdigit"}};
  for (const auto& [letter, name] : kSets) {
    const std::string upper(1, static_cast<char>(letter[0] - 32));
    const bool inverted = source_.Take(upper);
    if (!inverted && !source_.Take(letter)) continue;
    AddNamed(name, inverted, set);
    return {};
  }
  if (source_.Take("p{")) {
    ReadProperty(false, set);
  } else if (source_.Take("P{")) {
    ReadProperty(true, set);
  } else if (!in_class && source_.Take("N")) {
    CharSet line = CharSet::Of('\n', '\n');
    line.Invert();
    set->Add(line);
  } else if (!in_class && source_.Take("O")) {
    set->Add(0, 0x10FFFF);
  } else {
    return ReadEscapedChar(in_class);
  }
  return {};
}

void RegexClassReader::ReadProperty(bool inverted, CharSet* set) {
  if (source_.Take("^")) inverted = !inverted;
  std::string_view name;
  if (!source_.TakeUntil("}", &name) || !AddNamed(Plain(name), inverted, set))
    source_.Fail("the property '" + core::Excerpt(name) + "'");
}

char32_t RegexClassReader::ReadEscapedChar(bool in_class) {
  constexpr std::pair<std::string_view, char32_t> kControls[] = {
      {"n", '\n'}, {"r", '\r'}, {"t", '\t'}, {"f", '\f'}, {"v", '\v'}, {"a", '\a'}, {"e", 0x1B}};
  for (const auto& [letter, c] : kControls) {
    if (source_.Take(letter)) return c;
  }
  if (in_class && source_.Take("b")) return '\b';
  if (source_.Take("u")) return ReadHex(4);
  if (source_.Take("x{")) return ReadHexInBraces();
  if (source_.Take("x")) return ReadHex(2);
  const char32_t c = source_.TakeChar();
  if (IsAsciiLetter(c) || (c >= '0' && c <= '9')) source_.Fail("an unknown escape");
  return c;
}

char32_t RegexClassReader::ReadHex(int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = source_.End() ? ' ' : source_.TakeChar();
    const char32_t lower = c | 0x20;
    const bool number = c >= '0' && c <= '9';
    if (!number && !(lower >= 'a' && lower <= 'f')) {
      source_.Fail("a wrong hexadecimal escape");
      return 0;
    }
    value = value * 16 + (number ? c - '0' : lower - 'a' + 10);
  }
  // \x80 and above are bytes to the engine, not code points.
  if ((digits == 2 && value >= 0x80) || (value >= 0xD800 && value < 0xE000))
    source_.Fail("a wrong hexadecimal escape");
  return value;
}

char32_t RegexClassReader::ReadHexInBraces() {
  char32_t value = 0;
  for (int digits = 0; !source_.Take("}"); ++digits) {
    if (digits == 6 || source_.End()) {
      source_.Fail("a wrong hexadecimal escape");
      return 0;
    }
    value = value * 16 + ReadHex(1);
    if (!source_.ok()) return 0;
  }
  if (value >= 0x110000 || (value >= 0xD800 && value < 0xE000))
    source_.Fail("a wrong hexadecimal escape");
  return value;
}

}  // namespace slipstream::text
