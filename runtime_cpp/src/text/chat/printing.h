// Values as text: Python's str() and repr(), and JSON.
#pragma once

#include <string>

#include "text/chat/value.h"

namespace slipstream::text::chat {

/// str(value); what `{{ value }}` prints.
std::string ToText(const Value& value, Budget* budget);
std::string Repr(const Value& value, Budget* budget);
/// repr(float): the shortest digits that read back as the same number.
std::string FloatRepr(double value);

/// markupsafe.escape of plain text.
std::string EscapeHtml(const std::string& text, Budget* budget);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;  ///< A line for every item, with `indent` before it.
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// json.dumps(value). Errors: not serializable.
std::string ToJson(const Value& value, const JsonStyle& style, Budget* budget);

}  // namespace slipstream::text::chat
