#include "text/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/chat/strings.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsName(char c) { return IsNameStart(c) || IsDigit(c); }

/// CRLF and CR become LF; one newline at the very end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadRoot();
    Emit(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view text) const { return Rest().substr(0, text.size()) == text; }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void Advance(size_t bytes) {
    for (const size_t end = at_ + bytes; at_ < end; ++at_) {
      if (source_[at_] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else {
        ++position_.column;
      }
    }
  }

  void SkipSpace() {
    const std::string_view rest = Rest();
    Advance(rest.size() - Strip(rest, Side::kLeft).size());
  }

  [[noreturn]] void FailHere(std::string message) { Fail(At(std::move(message), position_)); }

  void Emit(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.position = position_;
    tokens_.push_back(std::move(token));
  }

  /// Text up to the next tag, and that tag.
  void ReadRoot() {
    size_t tag = std::string::npos;
    for (size_t from = at_;;) {
      tag = source_.find('{', from);
      if (tag == std::string::npos || tag + 1 >= source_.size()) break;
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      from = tag + 1;
    }
    if (tag == std::string::npos || tag + 1 >= source_.size()) {
      EmitText(Rest());
      Advance(source_.size() - at_);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    EmitText(BeforeTag(Rest().substr(0, tag - at_), sign, kind == '{'));
    Advance(tag - at_);
    const size_t opening = sign == '-' || sign == '+' ? 3 : 2;
    if (kind == '#') {
      ReadComment(opening);
    } else if (kind == '{') {
      Emit(TokenKind::kVariableBegin);
      Advance(opening);
      ReadCode(TokenKind::kVariableEnd);
    } else if (!ReadRaw(opening)) {
      Emit(TokenKind::kBlockBegin);
      Advance(opening);
      ReadCode(TokenKind::kBlockEnd);
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  void EmitText(std::string_view text) {
    if (!text.empty()) Emit(TokenKind::kText, std::string(text));
  }

  /// What `-`, `+` and lstrip_blocks leave of the text before a tag.
  std::string_view BeforeTag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return Strip(text, Side::kRight);
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line > 0 || line_starting_) && Strip(text.substr(line)).empty()) {
      return text.substr(0, line);
    }
    return text;
  }

  /// After the end of a tag: `-` strips white space, a plain end of block or comment one newline.
  void AfterTag(char sign, bool trim) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trim && Peek() == '\n') {
      Advance(1);
    }
  }

  void ReadComment(size_t opening) {
    size_t end = source_.find("#}", at_ + opening);
    if (end == std::string::npos) FailHere("A comment is not closed with '#}'");
    // `{#-}` does not close itself: the sign belongs to the opening.
    char sign = end > at_ + opening ? source_[end - 1] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    Advance(end + 2 - at_);
    AfterTag(sign, true);
  }

  /// The whole `{% raw %} ... {% endraw %}`; false when this is another tag.
  bool ReadRaw(size_t opening) {
    const size_t start = at_;
    size_t here = SpaceEnd(start + opening);
    if (source_.compare(here, 3, "raw") != 0) return false;
    here = SpaceEnd(here + 3);
    const bool strips = source_.compare(here, 3, "-%}") == 0;
    if (!strips && source_.compare(here, 2, "%}") != 0) return false;
    Advance(here + (strips ? 3 : 2) - at_);
    if (strips) SkipSpace();
    line_starting_ = source_[at_ - 1] == '\n';
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      size_t end = SpaceEnd(tag + (sign == '-' || sign == '+' ? 3 : 2));
      if (source_.compare(end, 6, "endraw") != 0) continue;
      end = SpaceEnd(end + 6);
      const char closing = end < source_.size() ? source_[end] : '\0';
      if (closing == '-' || closing == '+') ++end;
      if (source_.compare(end, 2, "%}") != 0) continue;
      EmitText(BeforeTag(Rest().substr(0, tag - at_), sign, false));
      Advance(end + 2 - at_);
      AfterTag(closing == '-' || closing == '+' ? closing : '\0', true);
      return true;
    }
    FailHere("A raw block is not closed with '{% endraw %}'");
  }

  size_t SpaceEnd(size_t from) const {
    from = std::min(from, source_.size());
    const std::string_view rest = std::string_view(source_).substr(from);
    return source_.size() - Strip(rest, Side::kLeft).size();
  }

  /// The tokens of a tag, its end included.
  void ReadCode(TokenKind end_kind) {
    const std::string_view end = end_kind == TokenKind::kVariableEnd ? "}}" : "%}";
    const Position begin = position_;
    std::string open;  // brackets that wait for their partner
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) {
        position_ = begin;
        FailHere("A tag is not closed with '" + std::string(end) + "'");
      }
      if (open.empty()) {
        const char sign = Peek();
        const bool plus = sign == '+' && end_kind == TokenKind::kBlockEnd;
        if (StartsWith(end) || ((sign == '-' || plus) && Rest().substr(1, 2) == end)) {
          const bool signed_end = !StartsWith(end);
          Emit(end_kind);
          Advance(signed_end ? 3 : 2);
          AfterTag(signed_end ? sign : '\0', end_kind == TokenKind::kBlockEnd);
          return;
        }
      }
      ReadToken(&open);
    }
  }

  void ReadToken(std::string* open) {
    const char c = Peek();
    if (IsDigit(c)) return ReadNumber();
    if (c == '\'' || c == '"') return ReadString(c);
    if (IsNameStart(c)) {
      size_t size = 1;
      while (IsName(Peek(size))) ++size;
      Emit(TokenKind::kName, std::string(Rest().substr(0, size)));
      Advance(size);
      if (static_cast<uint8_t>(Peek()) >= 0x80) FailUnsupportedHere("A name beyond ASCII");
      return;
    }
    if (static_cast<uint8_t>(c) >= 0x80) FailUnsupportedHere("A name beyond ASCII");
    ReadOperator(open);
  }

  [[noreturn]] void FailUnsupportedHere(const std::string& what) {
    throw ChatError(StatusCode::kIncompatible, At(what + " is not supported", position_));
  }

  void ReadOperator(std::string* open) {
    constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (std::string_view op : kOperators) {
      if (!StartsWith(op)) continue;
      const char c = op[0];
      if (c == '(' || c == '[' || c == '{') open->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      if (c == ')' || c == ']' || c == '}') {
        if (open->empty()) FailHere("Unexpected '" + std::string(op) + "'");
        if (open->back() != c) {
          FailHere("Unexpected '" + std::string(op) + "', expected '" + open->back() + "'");
        }
        open->pop_back();
      }
      Emit(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return;
    }
    FailHere(std::string("Unexpected character '") + Peek() + "'");
  }

  /// Digits with single `_` between them, from `at`; returns their end.
  size_t DigitsEnd(size_t at) const {
    while (at < source_.size() &&
           (IsDigit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                     IsDigit(source_[at + 1]) && IsDigit(source_[at - 1])))) {
      ++at;
    }
    return at;
  }

  void ReadNumber() {
    const size_t start = at_;
    size_t end = DigitsEnd(start);
    // After a dot (`x.0.1`) digits are an index, never a fraction.
    const bool after_dot = start > 0 && source_[start - 1] == '.';
    bool real = false;
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
        IsDigit(source_[end + 1])) {
      real = true;
      end = DigitsEnd(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      if (digits < source_.size() && IsDigit(source_[digits])) {
        real = true;
        end = DigitsEnd(digits);
      }
    }
    std::string digits;
    for (char c : source_.substr(start, end - start)) {
      if (c != '_') digits.push_back(c);
    }
    Emit(real ? TokenKind::kFloat : TokenKind::kInteger, digits);
    Token& token = tokens_.back();
    if (real) {
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
      if (parsed.ec != std::errc()) FailUnsupportedHere("The number " + digits);
    } else {
      const bool prefixed = digits == "0" && end < source_.size() && IsNameStart(source_[end]);
      const bool zeros = digits.size() > 1 && digits[0] == '0';
      const auto parsed =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.integer);
      if (prefixed || parsed.ec != std::errc() || (zeros && token.integer != 0)) {
        FailUnsupportedHere("The number " + digits);
      }
    }
    Advance(end - at_);
  }

  void ReadString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) FailHere("A string is not closed");
    const std::string value = Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    Emit(TokenKind::kString, value);
    Advance(end + 1 - at_);
  }

  /// Python's "unicode-escape".
  std::string Unescape(std::string_view raw) {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out.push_back(raw[i]);
        continue;
      }
      const char c = raw[++i];
      constexpr std::string_view kNames = "\\'\"abfnrtv";
      constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
      const size_t simple = kNames.find(c);
      if (simple != std::string_view::npos) {
        out.push_back(kValues[simple]);
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        size_t size = 1;
        while (size < 3 && i + size < raw.size() && raw[i + size] >= '0' && raw[i + size] <= '7') {
          ++size;
        }
        AppendCode(raw.substr(i, size), 8, &out);
        i += size - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        AppendCode(raw.substr(i + 1, size), 16, &out, size);
        i += size;
      } else if (c == 'N') {
        FailUnsupportedHere("The escape \\N");
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  void AppendCode(std::string_view digits, int base, std::string* out, size_t size = 0) {
    uint32_t code = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
        digits.size() < size || code >= 0x110000) {
      FailHere("A string holds a bad escape");
    }
    if (code >= 0xD800 && code < 0xE000) FailUnsupportedHere("A lone surrogate");
    AppendUtf8(code, out);
  }

  std::string source_;
  size_t at_ = 0;
  Position position_;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string At(std::string message, Position position) {
  return std::move(message) + " (line " + std::to_string(position.line) + ", column " +
         std::to_string(position.column) + ")";
}

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace slipstream::text::chat
