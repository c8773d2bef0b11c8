#include "text/chat/strings.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

char32_t Map(char32_t c, bool upper) {
  const CharClass properties = CharClass::Of(c);
  if (c < 0x80) {
    if (upper) return c >= 'a' && c <= 'z' ? c - 32 : c;
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  }
  if (c >= 0xC0 && c <= 0xDE && c != 0xD7) return upper ? c : c + 32;
  if (c >= 0xE0 && c <= 0xFE && c != 0xF7) return upper ? c - 32 : c;
  if (c >= 0x410 && c <= 0x42F) return upper ? c : c + 32;
  if (c >= 0x430 && c <= 0x44F) return upper ? c - 32 : c;
  // Categories without a single cased character.
  constexpr CategorySet kCaseless =
      (kSetP | kSetZ | kSetC | (kSetM & ~CategoryBit(kMn)) | CategoryBit(kNd) | CategoryBit(kNo) |
       CategoryBit(kSm) | CategoryBit(kSc) | CategoryBit(kSk)) &
      ~CategoryBit(kCn) & ~CategoryBit(kCo);
  if (properties.In(kCaseless)) return c;
  if (properties.In(CategoryBit(kCo))) return c;
  // Ideographs, kana, Hangul syllables, Hebrew, Arabic, South Asian scripts, emoji.
  if (properties.In(CategoryBit(kLo)) && c != 0xAA && c != 0xBA && (c < 0x10D0 || c > 0x10FF)) {
    return c;
  }
  if (properties.In(CategoryBit(kMn)) && c != 0x345) return c;
  if (properties.In(CategoryBit(kSo)) && (c < 0x24B6 || c > 0x24E9)) return c;
  std::string character;
  AppendUtf8(c, &character);
  FailUnsupported("changing the case of '" + character + "'");
}

bool Cased(char32_t c) { return CharClass::Of(c).In(CategoryBit(kLu) | CategoryBit(kLl)); }

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

template <class InSet>
std::string_view StripIf(std::string_view text, Side side, InSet in_set) {
  while (side != Side::kRight && !text.empty()) {
    const Utf8Char c = DecodeUtf8(text, 0);
    if (!in_set(c.code_point)) break;
    text.remove_prefix(c.size);
  }
  while (side != Side::kLeft && !text.empty()) {
    const Utf8Char c = DecodeUtf8Before(text, text.size());
    if (!in_set(c.code_point)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

std::vector<std::string> SplitSpace(std::string_view text, int64_t max, bool from_right) {
  std::vector<std::string> parts;
  text = Strip(text, from_right ? Side::kRight : Side::kLeft);
  while (!text.empty()) {
    if (max >= 0 && static_cast<int64_t>(parts.size()) == max) {
      // The far end of the remainder keeps its white space, as in Python.
      parts.emplace_back(text);
      break;
    }
    size_t at = from_right ? text.size() : 0;
    while (from_right ? at > 0 : at < text.size()) {
      const Utf8Char c = from_right ? DecodeUtf8Before(text, at) : DecodeUtf8(text, at);
      if (IsSpace(c.code_point)) break;
      at = from_right ? at - c.size : at + c.size;
    }
    parts.emplace_back(from_right ? text.substr(at) : text.substr(0, at));
    text =
        from_right ? Strip(text.substr(0, at), Side::kRight) : Strip(text.substr(at), Side::kLeft);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

int64_t CharacterCount(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const uint32_t size = DecodeUtf8(text, at).size;
    characters.push_back(text.substr(at, size));
    at += size;
  }
  return characters;
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view Strip(std::string_view text, Side side) { return StripIf(text, side, IsSpace); }

std::string_view StripSet(std::string_view text, std::string_view set, Side side) {
  std::u32string members;
  for (size_t at = 0; at < set.size();) {
    const Utf8Char c = DecodeUtf8(set, at);
    members.push_back(c.code_point);
    at += c.size;
  }
  return StripIf(text, side, [&](char32_t c) { return members.find(c) != std::u32string::npos; });
}

std::string ChangeCase(std::string_view text, Case to) {
  std::string out;
  out.reserve(text.size());
  bool inside_word = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const bool first = to == Case::kCapitalize ? at == 0 : !inside_word;
    const bool upper = to == Case::kUpper || (to != Case::kLower && first);
    AppendUtf8(Map(c.code_point, upper), &out);
    inside_word = Cased(c.code_point);
    at += c.size;
  }
  return out;
}

std::string Lower(std::string_view text) { return ChangeCase(text, Case::kLower); }

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count, Budget* budget) {
  std::string out;
  size_t at = 0;
  while (count != 0) {
    size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    if (from.empty()) {
      // Before every character and at the end.
      budget->ChargeBytes(to.size() + 4);
      out.append(to);
      --count;
      if (at == text.size()) break;
      const uint32_t size = DecodeUtf8(text, at).size;
      out.append(text.substr(at, size));
      at += size;
      if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
      continue;
    }
    budget->ChargeBytes(found - at + to.size());
    out.append(text.substr(at, found - at)).append(to);
    if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
    at = found + from.size();
    --count;
  }
  budget->ChargeBytes(text.size() - at);
  out.append(text.substr(at));
  if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
  return out;
}

std::vector<std::string> Split(std::string_view text, std::string_view separator, int64_t max,
                               bool from_right) {
  if (separator.empty()) return SplitSpace(text, max, from_right);
  std::vector<std::string> parts;
  while (max < 0 || static_cast<int64_t>(parts.size()) < max) {
    const size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(from_right ? text.substr(found + separator.size()) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(found + separator.size());
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    size_t end = at + c.size;
    if (IsLineEnd(c.code_point)) {
      if (c.code_point == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.emplace_back(text.substr(start, (keep_ends ? end : at) - start));
      start = end;
    }
    at = end;
  }
  if (start < text.size()) lines.emplace_back(text.substr(start));
  return lines;
}

}  // namespace slipstream::text::chat
