// Filters over one value: text, numbers, JSON. Those over sequences are in filters_sequence.cc.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/runtime.h"
#include "text/chat/strings.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

/// The text of Python's int() and float() without white space around it. Digits of other scripts
/// and `_` between digits are errors.
std::string NumberText(const std::string& text) {
  const std::string trimmed(Strip(text));
  for (char c : trimmed) {
    if (static_cast<uint8_t>(c) >= 0x80 || c == '_') {
      FailUnsupported("The number '" + trimmed + "'");
    }
  }
  return trimmed;
}

bool ParseFloat(const std::string& text, double* value) {
  std::string digits = NumberText(text);
  if (digits.starts_with("+") && digits.find_first_of("+-", 1) != 1) digits.erase(0, 1);
  const size_t letters = digits.find_first_not_of("-0123456789.eE+");
  if (letters != std::string::npos) {
    const std::string word = Lower(digits.starts_with("-") ? digits.substr(1) : digits);
    if (word == "inf" || word == "infinity" || word == "nan") {
      FailUnsupported("The number '" + digits + "'");
    }
    return false;
  }
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, *value);
  if (parsed.ec == std::errc::result_out_of_range) FailUnsupported("The number '" + digits + "'");
  return parsed.ec == std::errc() && parsed.ptr == end;
}

Value ToInt(const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  if (bound.Int(1, 10) != 10) FailUnsupported("int() with a base");
  RequireDefined(value);
  if (value.integral()) return Value::Int(value.as_int());
  double real = value.as_double();
  if (value.string()) {
    std::string digits = NumberText(value.text());
    if (digits.starts_with("+") && !digits.starts_with("+-")) digits.erase(0, 1);
    int64_t integer = 0;
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, integer);
    if (parsed.ptr == end && parsed.ec == std::errc()) return Value::Int(integer);
    if (parsed.ec == std::errc::result_out_of_range) FailUnsupported("An integer beyond 64 bits");
    if (!ParseFloat(value.text(), &real)) return bound.Get(0, Value::Int(0));
  } else if (!value.Is(Kind::kFloat)) {
    return bound.Get(0, Value::Int(0));
  }
  if (std::isnan(real) || std::isinf(real)) return bound.Get(0, Value::Int(0));
  if (std::abs(real) >= 0x1p63) FailUnsupported("An integer beyond 64 bits");
  return Value::Int(static_cast<int64_t>(real));
}

Value ToFloat(const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  RequireDefined(value);
  if (value.number()) return Value::Float(value.as_double());
  double real = 0;
  if (value.string() && ParseFloat(value.text(), &real)) return Value::Float(real);
  return bound.Get(0, Value::Float(0));
}

Value Absolute(const Value& value) {
  RequireDefined(value);
  if (!value.number()) Fail(std::string("bad operand type for abs(): '") + TypeName(value) + "'");
  if (value.Is(Kind::kFloat)) return Value::Float(std::abs(value.as_double()));
  return value.as_int() < 0 ? Negative(value) : Value::Int(value.as_int());
}

/// `title` capitalizes after white space, hyphens and opening brackets only.
std::string Title(const std::string& text) {
  std::string out;
  bool first = true;
  for (std::string_view character : Characters(text)) {
    out += ChangeCase(character, first ? Case::kUpper : Case::kLower);
    const char32_t code = DecodeUtf8(character, 0).code_point;
    first = IsSpace(code) || character == "-" || character == "(" || character == "{" ||
            character == "[" || character == "<";
  }
  return out;
}

Value Indent(const Value& value, const Arguments& arguments, Budget* budget) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  RequireDefined(value);
  if (!value.string()) Fail(std::string("indent needs text, not ") + TypeName(value));
  std::string indention;
  if (bound.Get(0).string()) {
    indention = bound.Text(0, "");
  } else {
    const int64_t width = std::max<int64_t>(bound.Int(0, 4), 0);
    budget->ChargeBytes(static_cast<uint64_t>(width));
    indention.assign(static_cast<size_t>(width), ' ');
  }
  const std::vector<std::string> lines = SplitLines(value.text() + "\n", false);
  std::string out = bound.Flag(1, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    budget->ChargeBytes(indention.size() + lines[i].size() + 1);
    if (i > 0) {
      out += '\n';
      if (!lines[i].empty() || bound.Flag(2, false)) out += indention;
    }
    out += lines[i];
    if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
  }
  return Value::String(std::move(out));
}

Value Json(const Value& value, const Arguments& arguments, Budget* budget) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.Flag(0, false);
  const Value indent = bound.Get(1, Value::None());
  if (!indent.none()) {
    style.pretty = true;
    style.item_separator = ",";
    if (indent.string()) {
      style.indent = indent.text();
    } else {
      const int64_t width = std::max<int64_t>(bound.Int(1, 0), 0);
      budget->ChargeBytes(static_cast<uint64_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  const Value separators = bound.Get(2, Value::None());
  if (!separators.none()) {
    const bool pair = separators.indexable() && separators.items().items.size() == 2 &&
                      separators.items().items[0].string() && separators.items().items[1].string();
    if (!pair) Fail("tojson: separators must be two texts");
    style.item_separator = separators.items().items[0].text();
    style.key_separator = separators.items().items[1].text();
  }
  style.sort_keys = bound.Flag(3, false);
  return Value::String(ToJson(value, style, budget));
}

Value Round(const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  RequireDefined(value);
  if (bound.Int(0, 0) != 0 || bound.Text(1, "common") != "common" || !value.number()) {
    FailUnsupported("round() with a precision or a method");
  }
  // round(int) is an int, round(float, 0) a float, to the even number when in the middle.
  return value.integral() ? Value::Int(value.as_int())
                          : Value::Float(std::nearbyint(value.as_double()));
}

/// Filters over the text of the value; false when `name` is none of them.
bool TextFilter(const std::string& name, const Value& value, const Arguments& arguments,
                Budget* budget, Value* result) {
  const auto text = [&] { return ToText(value, budget); };
  if (name == "trim") {
    const Bound bound(name, arguments, {"chars"});
    const std::string source = text();
    *result = Value::String(std::string(bound.Has(0) && !bound.Get(0).none()
                                            ? StripSet(source, bound.Text(0, ""), Side::kBoth)
                                            : Strip(source)));
  } else if (name == "upper" || name == "lower" || name == "capitalize" || name == "title") {
    Bound(name, arguments, {});
    *result =
        Value::String(name == "title" ? Title(text())
                                      : ChangeCase(text(), name == "upper"   ? Case::kUpper
                                                           : name == "lower" ? Case::kLower
                                                                             : Case::kCapitalize));
  } else if (name == "string") {
    Bound(name, arguments, {});
    *result = Value::String(text());
  } else if (name == "replace") {
    const Bound bound(name, arguments, {"old", "new", "count"}, 2);
    const int64_t count = bound.Get(2, Value::None()).none() ? -1 : bound.Int(2, -1);
    const std::string from = ToText(bound.Get(0), budget);
    *result = Value::String(Replace(text(), from, ToText(bound.Get(1), budget), count, budget));
  } else if (name == "format") {
    if (!arguments.keywords.empty()) FailUnsupported("Formatting with named values");
    *result = PercentFormat(text(), Value::Tuple(arguments.positional), budget);
  } else if (name == "safe") {
    Bound(name, arguments, {});
    *result = Value::Markup(text());
  } else if (name == "escape" || name == "e") {
    Bound(name, arguments, {});
    *result = value.Is(Kind::kMarkup) ? value : Value::Markup(EscapeHtml(text(), budget));
  } else {
    return false;
  }
  return true;
}

}  // namespace

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments,
                  Runtime* runtime) {
  Budget* budget = &runtime->budget;
  budget->ChargeSteps(1);
  const bool takes_markup =
      name == "safe" || name == "escape" || name == "e" || name == "default" || name == "d";
  if (value.Is(Kind::kMarkup) && !takes_markup) {
    FailUnsupported("The filter '" + name + "' on escaped text");
  }
  if (name == "default" || name == "d") {
    const Bound bound(name, arguments, {"default_value", "boolean"});
    const bool missing = value.undefined() || (bound.Flag(1, false) && !Truthy(value));
    return missing ? bound.Get(0, Value::String("")) : value;
  }
  if (name == "tojson") return Json(value, arguments, budget);
  if (name == "indent") return Indent(value, arguments, budget);
  if (name == "int") return ToInt(value, arguments);
  if (name == "float") return ToFloat(value, arguments);
  if (name == "round") return Round(value, arguments);
  if (name == "abs") {
    Bound(name, arguments, {});
    return Absolute(value);
  }
  Value result;
  if (TextFilter(name, value, arguments, budget, &result)) return result;
  if (ApplySequenceFilter(name, value, arguments, runtime, &result)) return result;
  FailUnsupported("The filter '" + name + "'");
}

}  // namespace slipstream::text::chat
