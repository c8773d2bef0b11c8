// The text of a regular expression while it is read.
#pragma once

#include <string>
#include <string_view>

#include "text/utf8.h"

namespace slipstream::text {

/// Reads `text` (valid UTF-8) from left to right. The first error is kept.
class RegexSource {
 public:
  explicit RegexSource(std::string_view text) : text_(text) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  /// Records that `what` stands at the current place; false.
  bool Fail(std::string_view what);

  bool End() const { return position_ >= text_.size(); }
  bool At(std::string_view s) const { return text_.substr(position_).starts_with(s); }
  bool Take(std::string_view s) {
    if (!At(s)) return false;
    position_ += s.size();
    return true;
  }
  /// The next character; must not be called at the end.
  char32_t TakeChar() {
    const Utf8Char c = DecodeUtf8(text_, position_);
    position_ += c.size;
    return c.code_point;
  }
  /// What stands before `end`, which is taken, too; false when there is no `end`.
  bool TakeUntil(std::string_view end, std::string_view* found) {
    const size_t at = text_.find(end, position_);
    if (at == std::string_view::npos) return false;
    *found = text_.substr(position_, at - position_);
    position_ = at + end.size();
    return true;
  }
  size_t position() const { return position_; }
  void GoTo(size_t position) { position_ = position; }

 private:
  std::string_view text_;
  size_t position_ = 0;
  std::string error_;
};

}  // namespace slipstream::text
