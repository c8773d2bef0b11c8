// The source of a template as tokens, by jinja2's rules for white space (trim_blocks,
// lstrip_blocks, `-` and `+`), comments and raw blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/error.h"

namespace slipstream::text::chat {

enum class TokenKind : uint8_t {
  kText,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  ///< Of a string: its value.
  int64_t integer = 0;
  double real = 0;
  Position position;
};

/// Ends with one kEnd. `source` is valid UTF-8. Throws ChatError with the position in its message.
std::vector<Token> Tokenize(std::string_view source);

/// Appends " (line 3, column 7)" to a message.
std::string At(std::string message, Position position);

}  // namespace slipstream::text::chat
