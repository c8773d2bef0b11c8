#include "text/utf8.h"

#include <cstring>

namespace slipstream::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Size of the character that `lead` starts; 0 when no character starts with it.
int SizeOfLead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // continuation bytes, and leads of overlong forms
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// Whether `byte` may be the second byte after `lead`: excludes overlong forms, surrogates and
// values above U+10FFFF.
bool ValidSecond(uint8_t lead, uint8_t byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0 && byte <= 0xBF;
    case 0xED:
      return byte >= 0x80 && byte <= 0x9F;
    case 0xF0:
      return byte >= 0x90 && byte <= 0xBF;
    case 0xF4:
      return byte >= 0x80 && byte <= 0x8F;
    default:
      return byte >= 0x80 && byte <= 0xBF;
  }
}

// Bytes from `position` on that are ASCII.
size_t AsciiPrefix(std::string_view text, size_t position) {
  size_t end = position;
  while (end + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if (word & 0x8080808080808080ull) break;
    end += 8;
  }
  while (end < text.size() && static_cast<uint8_t>(text[end]) < 0x80) ++end;
  return end - position;
}

}  // namespace

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto push = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t position = 0;
  while (true) {
    position += AsciiPrefix(text, position);
    if (position == text.size()) return std::string_view::npos;
    const auto lead = static_cast<uint8_t>(text[position]);
    const int size = SizeOfLead(lead);
    if (size == 0 || position + size > text.size()) return position;
    if (!ValidSecond(lead, static_cast<uint8_t>(text[position + 1]))) return position;
    for (int i = 2; i < size; ++i) {
      if ((static_cast<uint8_t>(text[position + i]) & 0xC0) != 0x80) return position;
    }
    position += size;
  }
}

// Tries to continue the held character. False when `byte` does not belong to it: the held part has
// then been replaced.
bool LossyUtf8Decoder::PushHeld(uint8_t byte, std::string* out) {
  const auto lead = static_cast<uint8_t>(held_[0]);
  const bool fits = held_size_ == 1 ? ValidSecond(lead, byte) : (byte & 0xC0) == 0x80;
  if (!fits) {
    out->append(kReplacement);
    held_size_ = 0;
    return false;
  }
  held_[held_size_++] = static_cast<char>(byte);
  if (held_size_ == expected_) {
    out->append(held_, held_size_);
    held_size_ = 0;
  }
  return true;
}

void LossyUtf8Decoder::Push(std::string_view bytes, std::string* out) {
  size_t position = 0;
  while (position < bytes.size()) {
    if (held_size_ == 0) {
      const size_t ascii = AsciiPrefix(bytes, position);
      out->append(bytes, position, ascii);
      position += ascii;
      if (position == bytes.size()) return;
    }
    const auto byte = static_cast<uint8_t>(bytes[position]);
    if (held_size_ > 0) {
      if (PushHeld(byte, out)) ++position;
      continue;
    }
    const int size = SizeOfLead(byte);
    ++position;
    if (size == 0) {
      out->append(kReplacement);
    } else {
      held_[0] = static_cast<char>(byte);
      held_size_ = 1;
      expected_ = static_cast<uint8_t>(size);
    }
  }
}

void LossyUtf8Decoder::Flush(std::string* out) {
  if (held_size_ > 0) out->append(kReplacement);
  held_size_ = 0;
}

}  // namespace slipstream::text
