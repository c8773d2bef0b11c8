// Matchers for the split patterns of real tokenizers. Each is the backtracking expression worked
// out by hand: one pass, no backtracking, linear time.
#include <algorithm>
#include <string_view>

#include "text/split_pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek cuts three times: at numbers, at Chinese and Japanese, at the rest.
constexpr std::string_view kNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kIdeographs = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kDeepSeek =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

// A character with its class; size 0 at the end of the text.
struct Peeked {
  char32_t code_point = 0;
  uint32_t size = 0;
  CharClass cls = CharClass::Of(0);

  bool End() const { return size == 0; }
  bool In(CategorySet set) const { return size != 0 && cls.In(set); }
  bool Space() const { return size != 0 && cls.IsSpace(); }
  bool Newline() const { return size != 0 && (code_point == '\n' || code_point == '\r'); }
  // [^\s\p{L}\p{N}]
  bool Symbol() const { return size != 0 && !cls.In(kSetL | kSetN) && !cls.IsSpace(); }
};

Peeked Peek(std::string_view text, size_t position) {
  if (position >= text.size()) return {};
  const Utf8Char c = DecodeUtf8(text, position);
  return {c.code_point, c.size, CharClass::Of(c.code_point)};
}

bool IsAsciiLetter(char c) { return static_cast<uint8_t>((c | 0x20) - 'a') < 26; }

size_t SkipAsciiLetters(std::string_view text, size_t position) {
  while (position < text.size() && IsAsciiLetter(text[position])) ++position;
  return position;
}

size_t SkipWhileIn(std::string_view text, size_t position, CategorySet set) {
  while (true) {
    // Most text, without a look into the table.
    if ((set & kSetL) == kSetL) position = SkipAsciiLetters(text, position);
    const Peeked c = Peek(text, position);
    if (!c.In(set)) return position;
    position += c.size;
  }
}

size_t SkipSymbols(std::string_view text, size_t position) {
  while (true) {
    const Peeked c = Peek(text, position);
    if (!c.Symbol()) return position;
    position += c.size;
  }
}

// End of 's 't 're 've 'm 'll 'd at `position`; `position` itself when there is none. Without
// regard to case, the engine also takes the long s (U+017F), whose simple case folding is s.
template <bool kIgnoreCase>
size_t SkipContraction(std::string_view text, size_t position) {
  if (position >= text.size() || text[position] != '\'') return position;
  const auto lower = [&](size_t i) -> char {
    if (position + i >= text.size()) return 0;
    const char c = text[position + i];
    return kIgnoreCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = lower(1);
  switch (first) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return position + 2;
    case 'r':
    case 'v':
      return lower(2) == 'e' ? position + 3 : position;
    case 'l':
      return lower(2) == 'l' ? position + 3 : position;
    default:
      break;
  }
  if (kIgnoreCase && text.substr(position + 1, 2) == "\xC5\xBF") return position + 3;
  return position;
}

// White space at `position` (there is some), by `\s*[\r\n]+|\s+(?!\S)|\s+`, the first alternative
// only if `kNewlines`: through the last line break of the run; else all of it at the end of the
// text; else all but its last character, which goes with the next word, unless it is the only one.
template <bool kNewlines>
size_t SkipSpaceRun(std::string_view text, size_t position) {
  size_t end = position;
  size_t last = position;    // start of the last character of the run
  size_t after_newline = 0;  // end of the last line break
  while (true) {
    const Peeked c = Peek(text, end);
    if (!c.Space()) break;
    last = end;
    end += c.size;
    if (c.Newline()) after_newline = end;
  }
  if (kNewlines && after_newline != 0) return after_newline;
  if (end == text.size() || last == position) return end;
  return last;
}

// Words that may take one character with them, numbers of up to `max_digits`, symbols with line
// breaks, white space: what cl100k and its descendants share behind their rule for words.
template <bool kSlash>
size_t MatchRest(std::string_view text, size_t from, const Peeked& first, int max_digits) {
  if (first.In(kSetN)) {
    size_t end = from + first.size;
    for (int digits = 1; digits < max_digits; ++digits) {
      const Peeked c = Peek(text, end);
      if (!c.In(kSetN)) break;
      end += c.size;
    }
    return end;
  }
  // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
  const size_t begin = first.code_point == ' ' ? from + 1 : from;
  if (size_t end = SkipSymbols(text, begin); end > begin) {
    while (end < text.size() &&
           (text[end] == '\r' || text[end] == '\n' || (kSlash && text[end] == '/')))
      ++end;
    return end;
  }
  return SkipSpaceRun<true>(text, from);
}

// Of patterns that match at every position of any text.
template <size_t (*kMatch)(std::string_view, size_t)>
class TotalPattern final : public SplitPattern {
 public:
  FindResult Find(std::string_view text, size_t from, size_t*, Span* match) const override {
    if (from >= text.size()) return FindResult::kNone;
    *match = {from, kMatch(text, from)};
    return FindResult::kFound;
  }
};

// The same for matches that are not everywhere: `kMatch` gives the position itself where there is
// none.
template <size_t (*kMatch)(std::string_view, size_t)>
class PartialPattern final : public SplitPattern {
 public:
  FindResult Find(std::string_view text, size_t from, size_t*, Span* match) const override {
    for (; from < text.size(); from += DecodeUtf8(text, from).size) {
      *match = {from, kMatch(text, from)};
      if (match->end > from) return FindResult::kFound;
    }
    return FindResult::kNone;
  }
};

size_t MatchGpt2(std::string_view text, size_t from) {
  if (const size_t end = SkipContraction<false>(text, from); end > from) return end;
  const size_t begin = text[from] == ' ' ? from + 1 : from;
  const Peeked c = Peek(text, begin);
  if (c.In(kSetL)) return SkipWhileIn(text, begin + c.size, kSetL);
  if (c.In(kSetN)) return SkipWhileIn(text, begin + c.size, kSetN);
  if (c.Symbol()) return SkipSymbols(text, begin + c.size);
  return SkipSpaceRun<false>(text, from);
}

template <int kMaxDigits>
size_t MatchCl100k(std::string_view text, size_t from) {
  if (const size_t end = SkipContraction<true>(text, from); end > from) return end;
  const Peeked first = Peek(text, from);
  if (first.In(kSetL)) return SkipWhileIn(text, from + first.size, kSetL);
  if (!first.Newline() && !first.In(kSetN)) {
    const size_t begin = from + first.size;
    if (const size_t end = SkipWhileIn(text, begin, kSetL); end > begin) return end;
  }
  return MatchRest<false>(text, from, first, kMaxDigits);
}

constexpr CategorySet kSetUpper =
    CategoryBit(kLu) | CategoryBit(kLt) | CategoryBit(kLm) | CategoryBit(kLo) | kSetM;
constexpr CategorySet kSetLower = CategoryBit(kLl) | CategoryBit(kLm) | CategoryBit(kLo) | kSetM;

// `[upper]*[lower]+` from `position`; `position` itself when it does not match. The classes share
// Lm, Lo and M: the greedy [upper]* gives back characters until [lower]+ can start, that is to the
// last shared one of the run.
size_t MatchLowerWord(std::string_view text, size_t position) {
  size_t end = position;
  size_t after_shared = position;
  while (true) {
    const Peeked c = Peek(text, end);
    if (!c.In(kSetUpper)) break;
    end += c.size;
    if (c.In(kSetLower)) after_shared = end;
  }
  const size_t lower_end = SkipWhileIn(text, end, kSetLower);
  return lower_end > end ? lower_end : after_shared;
}

// `[upper]+[lower]*` from `position`; `position` itself when it does not match.
size_t MatchUpperWord(std::string_view text, size_t position) {
  const size_t end = SkipWhileIn(text, position, kSetUpper);
  return end > position ? SkipWhileIn(text, end, kSetLower) : position;
}

size_t MatchO200k(std::string_view text, size_t from) {
  const Peeked first = Peek(text, from);
  // The optional character in front is tried first, then the word without it (only a mark can be
  // either).
  const bool may_lead = !first.Newline() && !first.In(kSetL | kSetN);
  for (const auto match : {MatchLowerWord, MatchUpperWord}) {
    if (may_lead) {
      const size_t begin = from + first.size;
      if (const size_t end = match(text, begin); end > begin)
        return SkipContraction<true>(text, end);
    }
    if (const size_t end = match(text, from); end > from) return SkipContraction<true>(text, end);
  }
  return MatchRest<true>(text, from, first, 3);
}

size_t MatchNumbers(std::string_view text, size_t from) {
  for (int digits = 0; digits < 3; ++digits) {
    const Peeked c = Peek(text, from);
    if (!c.In(kSetN)) break;
    from += c.size;
  }
  return from;
}

size_t MatchIdeographs(std::string_view text, size_t from) {
  while (true) {
    const Peeked c = Peek(text, from);
    const bool in = (c.code_point >= 0x4E00 && c.code_point <= 0x9FA5) ||
                    (c.code_point >= 0x3040 && c.code_point <= 0x30FF);
    if (!in) return from;
    from += c.size;
  }
}

size_t MatchDeepSeek(std::string_view text, size_t from) {
  const Peeked first = Peek(text, from);
  const size_t second = from + first.size;
  const bool symbol = first.In(kSetP | kSetS);
  if (symbol && first.size == 1) {
    if (const size_t end = SkipAsciiLetters(text, second); end > second) return end;
  }
  // The optional character in front is tried first, then the word without it (only a mark can be
  // either).
  if (!symbol && !first.Newline() && !first.In(kSetL)) {
    if (const size_t end = SkipWhileIn(text, second, kSetL | kSetM); end > second) return end;
  }
  if (first.In(kSetL | kSetM)) return SkipWhileIn(text, second, kSetL | kSetM);
  const size_t begin = first.code_point == ' ' ? second : from;
  if (size_t end = SkipWhileIn(text, begin, kSetP | kSetS); end > begin) {
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  return first.Space() ? SkipSpaceRun<true>(text, from) : from;
}

class LiteralPattern final : public SplitPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  FindResult Find(std::string_view text, size_t from, size_t*, Span* match) const override {
    const size_t begin = text.find(literal_, from);
    if (begin == std::string_view::npos) return FindResult::kNone;
    *match = {begin, begin + literal_.size()};
    return FindResult::kFound;
  }
  // What may be the start of the literal is the longest end of the text that the literal starts
  // with.
  FindResult FindInStream(std::string_view text, size_t from, size_t* steps,
                          Span* match) const override {
    if (Find(text, from, steps, match) == FindResult::kFound) return FindResult::kFound;
    size_t begin = std::max(from, text.size() - std::min(text.size(), literal_.size() - 1));
    while (!literal_.starts_with(text.substr(begin))) ++begin;
    *match = {begin, begin};
    return FindResult::kMore;
  }
  bool LooksBack() const override { return false; }
  std::optional<char> OneByte() const override {
    return literal_.size() == 1 ? std::optional<char>(literal_[0]) : std::nullopt;
  }

 private:
  std::string literal_;
};

}  // namespace

std::unique_ptr<SplitPattern> MakeGpt2Pattern() {
  return std::make_unique<TotalPattern<MatchGpt2>>();
}

std::unique_ptr<SplitPattern> MakeKnownPattern(std::string_view regex) {
  if (regex == kGpt2) return MakeGpt2Pattern();
  if (regex == kCl100k) return std::make_unique<TotalPattern<MatchCl100k<3>>>();
  if (regex == kQwen2) return std::make_unique<TotalPattern<MatchCl100k<1>>>();
  if (regex == kNumbers) return std::make_unique<PartialPattern<MatchNumbers>>();
  if (regex == kIdeographs) return std::make_unique<PartialPattern<MatchIdeographs>>();
  if (regex == kDeepSeek) return std::make_unique<PartialPattern<MatchDeepSeek>>();
  if (regex == kO200k) return std::make_unique<TotalPattern<MatchO200k>>();
  return nullptr;
}

std::unique_ptr<SplitPattern> MakeLiteralPattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

}  // namespace slipstream::text
