#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr bool Printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint16_t, 256> to_char{};
  std::array<int16_t, 512> to_byte{};  // -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.to_byte) byte = -1;
  uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t code_point = Printable(byte) ? static_cast<uint16_t>(byte) : next++;
    alphabet.to_char[byte] = code_point;
    alphabet.to_byte[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t ByteToChar(uint8_t byte) { return kAlphabet.to_char[byte]; }

std::string SpellBytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size() * 2);
  for (const char byte : bytes) AppendUtf8(ByteToChar(static_cast<uint8_t>(byte)), &spelling);
  return spelling;
}

bool AppendSpelledBytes(std::string_view spelling, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t position = 0; position < spelling.size();) {
    const Utf8Char c = DecodeUtf8(spelling, position);
    const int byte = c.code_point < kAlphabet.to_byte.size() ? kAlphabet.to_byte[c.code_point] : -1;
    if (byte < 0) {
      bytes->resize(before);
      return false;
    }
    bytes->push_back(static_cast<char>(byte));
    position += c.size;
  }
  return true;
}

}  // namespace slipstream::text
