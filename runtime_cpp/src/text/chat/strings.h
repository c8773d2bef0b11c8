// Python's str, over UTF-8: positions count characters (code points).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/error.h"

namespace slipstream::text::chat {

int64_t CharacterCount(std::string_view text);
/// Each character's bytes.
std::vector<std::string_view> Characters(std::string_view text);
/// str.isspace of one character.
bool IsSpace(char32_t code_point);

enum class Side : uint8_t { kBoth, kLeft, kRight };
/// str.strip of white space.
std::string_view Strip(std::string_view text, Side side = Side::kBoth);
/// str.strip of the characters in `set`.
std::string_view StripSet(std::string_view text, std::string_view set, Side side);

enum class Case : uint8_t { kUpper, kLower, kTitle, kCapitalize };
/// str.upper and its like. Letters whose mapping is not known here (most scripts with case beyond
/// Latin-1 and Russian) are errors.
std::string ChangeCase(std::string_view text, Case to);
std::string Lower(std::string_view text);

/// str.replace; count < 0: all.
std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count, Budget* budget);
/// str.split and str.rsplit. `separator` empty: runs of white space.
std::vector<std::string> Split(std::string_view text, std::string_view separator, int64_t max,
                               bool from_right);
/// str.splitlines.
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

}  // namespace slipstream::text::chat
