// UTF-8: walking over valid text, checking input, and turning arbitrary bytes into valid text piece
// by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::text {

/// One code point and the bytes it takes.
struct Utf8Char {
  char32_t code_point;
  uint32_t size;
};

/// The code point at `position`, which must be the start of a character of valid UTF-8.
inline Utf8Char DecodeUtf8(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
  if (lead < 0xF0) return {(lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
  return {
      (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu),
      4};
}

/// The code point that ends just before `position` (> 0) of valid UTF-8.
inline Utf8Char DecodeUtf8Before(std::string_view text, size_t position) {
  size_t start = position - 1;
  while ((static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return DecodeUtf8(text, start);
}

/// Appends the UTF-8 of `code_point`, a scalar value.
void AppendUtf8(char32_t code_point, std::string* out);

/// Offset of the first byte that is not part of valid UTF-8; npos when all of it is valid.
size_t FindInvalidUtf8(std::string_view text);

/// Bytes in, valid UTF-8 out. Every maximal invalid part becomes one U+FFFD, as in Rust's
/// String::from_utf8_lossy and the Unicode standard's recommendation. An incomplete character at
/// the end is held until it is decided.
class LossyUtf8Decoder {
 public:
  /// Appends to `out` the text that became certain with `bytes`.
  void Push(std::string_view bytes, std::string* out);
  /// Ends the text: what is still held becomes one U+FFFD.
  void Flush(std::string* out);

 private:
  bool PushHeld(uint8_t byte, std::string* out);

  char held_[4] = {};  // an incomplete character
  uint8_t held_size_ = 0;
  uint8_t expected_ = 0;  // its whole size in bytes
};

}  // namespace slipstream::text
