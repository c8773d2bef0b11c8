// The byte-level alphabet of GPT-2: every byte is spelled as one printable character, so that
// vocabularies are text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::text {

/// The character that spells `byte`: itself when printable, else U+0100 and on.
char32_t ByteToChar(uint8_t byte);

/// Spells bytes in the alphabet.
std::string SpellBytes(std::string_view bytes);

/// The bytes that `spelling` (valid UTF-8) stands for, appended to `bytes`. False, with `bytes`
/// unchanged, when a character is not in the alphabet.
bool AppendSpelledBytes(std::string_view spelling, std::string* bytes);

}  // namespace slipstream::text
