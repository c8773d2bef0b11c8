// Patterns that match characters of a class, one at a time or in runs.
#include "text/split_pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

// Runs of characters with the same kind, other than kind 0; single ones when not `runs`.
template <class KindOf>
class CharPattern final : public SplitPattern {
 public:
  CharPattern(KindOf kind_of, bool runs) : kind_of_(kind_of), runs_(runs) {}

  FindResult Find(std::string_view text, size_t from, size_t*, Span* match) const override {
    for (size_t position = from; position < text.size();) {
      const Utf8Char c = DecodeUtf8(text, position);
      const int kind = kind_of_(CharClass::Of(c.code_point));
      if (kind == 0) {
        position += c.size;
        continue;
      }
      *match = {position, position + c.size};
      while (runs_ && match->end < text.size()) {
        const Utf8Char next = DecodeUtf8(text, match->end);
        if (kind_of_(CharClass::Of(next.code_point)) != kind) break;
        match->end += next.size;
      }
      return FindResult::kFound;
    }
    return FindResult::kNone;
  }

 private:
  KindOf kind_of_;
  bool runs_;
};

template <class KindOf>
std::unique_ptr<SplitPattern> Make(KindOf kind_of, bool runs) {
  return std::make_unique<CharPattern<KindOf>>(kind_of, runs);
}

}  // namespace

std::unique_ptr<SplitPattern> MakeDigitsPattern(bool individual) {
  return Make([](CharClass c) -> int { return c.IsNumeric(); }, !individual);
}

std::unique_ptr<SplitPattern> MakeSpacePattern() {
  return Make([](CharClass c) -> int { return c.IsRustSpace(); }, false);
}

std::unique_ptr<SplitPattern> MakePunctuationPattern() {
  return Make([](CharClass c) -> int { return c.IsPunctuation(); }, false);
}

std::unique_ptr<SplitPattern> MakeWordPattern() {
  return Make([](CharClass c) -> int { return c.IsRustWord()    ? 1
                                              : c.IsRustSpace() ? 0
                                                                : 2; },
              true);
}

}  // namespace slipstream::text
