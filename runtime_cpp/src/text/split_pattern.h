// Patterns that cut text into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "slipstream/status.h"

namespace slipstream::text {

/// A half-open range of bytes.
struct Span {
  size_t begin;
  size_t end;
};

enum class FindResult : uint8_t {
  kFound,
  kNone,
  kTooHard,  ///< gave up: the pattern needs too many steps on this text
  kStopped,  ///< whoever takes the words wants no more of them
  kMore,     ///< it depends on text that has not come yet
};

/// A pattern without state: one object serves all threads.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;
  /// The first match in `text` (valid UTF-8) that starts at `from` or behind. Searches that must be
  /// bounded take their steps from `*steps`: kTooHard when none is left.
  virtual FindResult Find(std::string_view text, size_t from, size_t* steps, Span* match) const = 0;

  /// The same where more text may follow: kMore when that could change the answer; a match then
  /// starts at match->begin or behind. Unless a pattern knows better, nothing is certain before the
  /// end.
  virtual FindResult FindInStream(std::string_view, size_t from, size_t*, Span* match) const {
    *match = {from, from};
    return FindResult::kMore;
  }
  /// Whether a match depends on text before `from`.
  virtual bool LooksBack() const { return true; }
  /// The byte, when the pattern matches just this one wherever it is; else nothing.
  virtual std::optional<char> OneByte() const { return std::nullopt; }
};

/// Steps for one pass over a text of `bytes`: far more than real patterns need, and an end for
/// patterns that would take quadratic or exponential time.
constexpr size_t StepsFor(size_t bytes) { return 1'000'000 + 200 * bytes; }

/// Where a search goes on behind an empty match at `from`: the start of the next character.
inline size_t NextStart(std::string_view text, size_t from) {
  do {
    ++from;
  } while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80);
  return from;
}

/// Calls visit(span) for the matches in `text`, from left to right, until it returns anything but
/// kFound, which is then returned; kTooHard when the pattern gave up; else kFound. Only patterns
/// from a file can match nothing: an empty match counts unless it follows another one directly.
template <class Visit>
FindResult ForEachMatch(const SplitPattern& pattern, std::string_view text, Visit&& visit) {
  if (text.empty()) return FindResult::kFound;
  size_t steps = StepsFor(text.size());
  size_t last_end = std::string_view::npos;
  for (size_t from = 0; from <= text.size();) {
    Span match{0, 0};
    const FindResult found = pattern.Find(text, from, &steps, &match);
    if (found == FindResult::kTooHard) return found;
    if (found == FindResult::kNone) break;
    if (match.begin == match.end && match.end == last_end) {
      from = NextStart(text, from);
      continue;
    }
    from = last_end = match.end;
    if (const FindResult result = visit(match); result != FindResult::kFound) return result;
  }
  return FindResult::kFound;
}

/// The hand-written matcher of a pattern that real tokenizers use (GPT-2, cl100k and Llama-3,
/// Qwen2, o200k, DeepSeek), or nullptr when the expression is not exactly one of them.
std::unique_ptr<SplitPattern> MakeKnownPattern(std::string_view regex);

/// The pattern that the ByteLevel pre-tokenizer uses: GPT-2's.
std::unique_ptr<SplitPattern> MakeGpt2Pattern();

/// Digits (Rust's char::is_numeric), one at a time or in runs.
std::unique_ptr<SplitPattern> MakeDigitsPattern(bool individual);
/// One white-space character (Rust's char::is_whitespace).
std::unique_ptr<SplitPattern> MakeSpacePattern();
/// One punctuation character.
std::unique_ptr<SplitPattern> MakePunctuationPattern();
/// `\w+|[^\w\s]+`: what the Whitespace pre-tokenizer keeps.
std::unique_ptr<SplitPattern> MakeWordPattern();

/// Matches `literal`, which must not be empty.
std::unique_ptr<SplitPattern> MakeLiteralPattern(std::string literal);

}  // namespace slipstream::text
