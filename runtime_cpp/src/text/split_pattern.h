// Patterns that cut text into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
};

/// A pattern without state: one object serves all threads.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;
  /// The first match in `text` (valid UTF-8) that starts at `from` or behind; never empty.
  virtual FindResult Find(std::string_view text, size_t from, Span* match) const = 0;
};

/// The hand-written matcher of a pattern that real tokenizers use (GPT-2, cl100k and Llama-3,
/// Qwen2, o200k), or nullptr when the expression is not exactly one of them.
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
