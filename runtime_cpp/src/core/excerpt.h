// Text from outside (files, callers) inside messages: never more than a glance of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slipstream::core {

/// `text`, or its first `longest` bytes and "..." where it has more. Splits no character of valid
/// UTF-8.
inline std::string Excerpt(std::string_view text, size_t longest = 40) {
  if (text.size() <= longest) return std::string(text);
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

/// The same for names, of which a longer part is needed to know what is meant: those of real
/// tensors and values fit.
inline std::string NameExcerpt(std::string_view name) { return Excerpt(name, 100); }

}  // namespace slipstream::core
