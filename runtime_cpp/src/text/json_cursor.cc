#include "text/json_cursor.h"

#include <charconv>
#include <cstring>

#include "text/utf8.h"

namespace slipstream::text {
namespace {

// Deeper nesting than any tokenizer file has; keeps later recursive readers of a skipped value
// safe.
constexpr size_t kMaxDepth = 64;

bool IsScalarChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.';
}

}  // namespace

bool JsonCursor::Fail(std::string_view what) {
  if (error_.empty()) error_ = std::string(what) + " at byte " + std::to_string(position_);
  return false;
}

void JsonCursor::SkipSpace() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++position_;
  }
}

char JsonCursor::Peek() {
  if (!ok()) return 0;
  SkipSpace();
  return position_ < text_.size() ? text_[position_] : 0;
}

bool JsonCursor::Expect(char c) {
  if (Peek() != c) {
    return Fail(std::string("expected '") + c + "'");
  }
  ++position_;
  return true;
}

bool JsonCursor::EnterObject() { return first_ = Expect('{'); }

bool JsonCursor::EnterArray() { return first_ = Expect('['); }

bool JsonCursor::NextKey(std::string_view* key) {
  const char c = Peek();
  if (!ok()) return false;
  if (c == '}') {
    ++position_;
    first_ = false;
    return false;
  }
  if (!first_ && !Expect(',')) return false;
  first_ = false;
  return ReadString(key) && Expect(':');
}

bool JsonCursor::NextElement() {
  const char c = Peek();
  if (!ok()) return false;
  if (c == ']') {
    ++position_;
    first_ = false;
    return false;
  }
  if (!first_ && !Expect(',')) return false;
  first_ = false;
  if (Peek() == ']') return Fail("expected a value after ','");
  return ok();
}

bool JsonCursor::ReadHex4(size_t position, uint32_t* value) {
  if (position + 4 > text_.size()) return false;
  const char* begin = text_.data() + position;
  const auto [end, error] = std::from_chars(begin, begin + 4, *value, 16);
  return error == std::errc() && end == begin + 4;
}

// `position` is at the character after the backslash, and moves behind the escape.
bool JsonCursor::ReadEscape(size_t* position, std::string* out) {
  if (*position >= text_.size()) return Fail("string without an end");
  const char c = text_[(*position)++];
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  if (const size_t i = kNames.find(c); i != std::string_view::npos) {
    out->push_back(kValues[i]);
    return true;
  }
  uint32_t code = 0;
  if (c != 'u' || !ReadHex4(*position, &code)) return Fail("wrong escape in a string");
  *position += 4;
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(*position, 2) == "\\u") {
    uint32_t low = 0;
    if (ReadHex4(*position + 2, &low) && low >= 0xDC00 && low < 0xE000) {
      *position += 6;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (code >= 0xD800 && code < 0xE000) return Fail("lone surrogate in a string");
  AppendUtf8(code, out);
  return true;
}

bool JsonCursor::ReadString(std::string_view* value) {
  if (Peek() != '"') return Fail("expected a string");
  const size_t begin = ++position_;
  size_t position = begin;
  const auto plain_end = [&] {
    // Eight bytes at a time while none is a quote, a backslash or below 0x20. Bytes from 0x80 up
    // may hide behind a borrow, but only behind one of those.
    for (; position + 8 <= text_.size(); position += 8) {
      constexpr uint64_t kOnes = 0x0101010101010101;
      constexpr uint64_t kHighBits = 0x8080808080808080;
      uint64_t word;
      std::memcpy(&word, text_.data() + position, sizeof word);
      const uint64_t quote = word ^ kOnes * '"';
      const uint64_t backslash = word ^ kOnes * '\\';
      const uint64_t stops = ((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) |
                             ((word - kOnes * 0x20) & ~word);
      if (stops & kHighBits) break;
    }
    while (position < text_.size()) {
      const auto c = static_cast<uint8_t>(text_[position]);
      if (c == '"' || c == '\\' || c < 0x20) break;
      ++position;
    }
  };
  plain_end();
  if (position < text_.size() && text_[position] == '"') {
    *value = text_.substr(begin, position - begin);
    position_ = position + 1;
    return true;
  }
  buffer_.assign(text_, begin, position - begin);
  while (position < text_.size() && text_[position] == '\\') {
    ++position;
    if (!ReadEscape(&position, &buffer_)) return false;
    const size_t run = position;
    plain_end();
    buffer_.append(text_, run, position - run);
  }
  if (position >= text_.size()) return Fail("string without an end");
  if (text_[position] != '"') return Fail("control character in a string");
  position_ = position + 1;
  *value = buffer_;
  return true;
}

bool JsonCursor::ReadInteger(int64_t* value) {
  Peek();
  if (!ok()) return false;
  const char* begin = text_.data() + position_;
  const char* limit = text_.data() + text_.size();
  const auto [end, error] = std::from_chars(begin, limit, *value);
  if (error == std::errc::result_out_of_range) return Fail("integer out of range");
  if (error != std::errc() || (end < limit && IsScalarChar(*end)))
    return Fail("expected an integer");
  position_ += end - begin;
  return true;
}

bool JsonCursor::SkipScalar() {
  const size_t begin = position_;
  while (position_ < text_.size() && IsScalarChar(text_[position_])) ++position_;
  return position_ > begin || Fail("expected a value");
}

// Iterative: hostile nesting must not use up the stack. The grammar inside is checked by whoever
// reads `raw`.
bool JsonCursor::Skip(std::string_view* raw) {
  Peek();
  const size_t begin = position_;
  std::string open;  // closing brackets still to come
  do {
    const char c = Peek();
    if (!ok()) return false;
    if (c == '{' || c == '[') {
      if (open.size() == kMaxDepth) return Fail("nested deeper than 64 levels");
      open.push_back(c == '{' ? '}' : ']');
      ++position_;
    } else if (!open.empty() && c == open.back()) {
      open.pop_back();
      ++position_;
    } else if (!open.empty() && (c == ',' || c == ':')) {
      ++position_;
    } else if (c == '"') {
      std::string_view ignored;
      if (!ReadString(&ignored)) return false;
    } else if (!SkipScalar()) {
      return false;
    }
  } while (!open.empty());
  if (raw != nullptr) *raw = text_.substr(begin, position_ - begin);
  return true;
}

bool JsonCursor::AtEnd() {
  Peek();
  if (!ok()) return false;
  return position_ == text_.size() || Fail("text after the end of the value");
}

}  // namespace slipstream::text
