#include "text/chat/printing.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendHex(uint32_t code, int digits, std::string* out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out->push_back(kHex[code >> shift & 15]);
}

bool Printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  return !CharClass::Of(c).In(kSetC | kSetZ);
}

void AppendStringRepr(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out->push_back(quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const char32_t code = c.code_point;
    if (code == '\\' || code == static_cast<char32_t>(quote)) {
      out->push_back('\\');
      out->push_back(static_cast<char>(code));
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out->append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
    } else if (Printable(code)) {
      out->append(text.substr(at, c.size));
    } else if (code < 0x100) {
      out->append("\\x");
      AppendHex(code, 2, out);
    } else if (code < 0x10000) {
      out->append("\\u");
      AppendHex(code, 4, out);
    } else {
      out->append("\\U");
      AppendHex(code, 8, out);
    }
    at += c.size;
  }
  out->push_back(quote);
}

/// repr() and json.dumps() walk values in the same way and charge for what they write.
class Writer {
 public:
  explicit Writer(Budget* budget) : budget_(budget) {}

  std::string Take() {
    Charge();
    return std::move(out_);
  }

  void WriteRepr(const Value& value) {
    Charge();
    switch (value.kind()) {
      case Kind::kString:
        AppendStringRepr(value.text(), &out_);
        return;
      case Kind::kList:
        WriteItems(value, '[', ']');
        return;
      case Kind::kTuple:
        WriteItems(value, '(', ')');
        return;
      case Kind::kDict: {
        out_.push_back('{');
        bool first = true;
        for (const auto& [key, item] : value.as_dict().entries) {
          if (!first) out_.append(", ");
          first = false;
          WriteRepr(key);
          out_.append(": ");
          WriteRepr(item);
        }
        out_.push_back('}');
        return;
      }
      case Kind::kUndefined:
        out_.append("Undefined");
        return;
      default:
        out_.append(ToText(value, budget_));
    }
  }

  void WriteJson(const Value& value, const JsonStyle& style, int32_t level) {
    Charge();
    switch (value.kind()) {
      case Kind::kNone:
        out_.append("null");
        return;
      case Kind::kBool:
        out_.append(value.as_bool() ? "true" : "false");
        return;
      case Kind::kInt:
      case Kind::kFloat:
        out_.append(JsonNumber(value));
        return;
      case Kind::kString:
        WriteJsonString(value.text(), style.ensure_ascii);
        return;
      case Kind::kList:
      case Kind::kTuple: {
        const auto& items = value.items().items;
        if (items.empty()) {
          out_.append("[]");
          return;
        }
        out_.push_back('[');
        for (size_t i = 0; i < items.size(); ++i) {
          Separate(i == 0, style, level + 1);
          WriteJson(items[i], style, level + 1);
        }
        if (style.pretty) NewLine(style, level);
        out_.push_back(']');
        return;
      }
      case Kind::kDict:
        WriteJsonObject(value.as_dict(), style, level);
        return;
      case Kind::kMarkup:
        FailUnsupported("JSON of escaped text");
      default:
        Fail(std::string("Object of type ") + TypeName(value) + " is not JSON serializable");
    }
  }

 private:
  void Charge() {
    budget_->ChargeSteps(1);
    if (out_.size() > charged_ + 4096) {
      budget_->ChargeBytes(out_.size() - charged_);
      charged_ = out_.size();
    }
    if (out_.size() > kMaxStringBytes) budget_->ChargeBytes(out_.size());
  }

  void WriteItems(const Value& value, char open, char close) {
    const auto& items = value.items().items;
    out_.push_back(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(", ");
      WriteRepr(items[i]);
    }
    if (value.Is(Kind::kTuple) && items.size() == 1) out_.push_back(',');
    out_.push_back(close);
  }

  static std::string JsonNumber(const Value& value) {
    if (value.integral()) return std::to_string(value.as_int());
    const double real = value.as_double();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(real);
  }

  void NewLine(const JsonStyle& style, int32_t level) {
    out_.push_back('\n');
    for (int32_t i = 0; i < level; ++i) {
      out_.append(style.indent);
      Charge();
    }
  }

  void Separate(bool first, const JsonStyle& style, int32_t level) {
    if (!first) out_.append(style.item_separator);
    if (style.pretty) NewLine(style, level);
  }

  void WriteJsonObject(const Dict& dict, const JsonStyle& style, int32_t level) {
    if (dict.entries.empty()) {
      out_.append("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style.sort_keys) {
      for (const auto* entry : entries) {
        if (!entry->first.string()) FailUnsupported("Sorting JSON keys that are not strings");
      }
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->first.text() < b->first.text(); });
    }
    out_.push_back('{');
    bool first = true;
    for (const auto* entry : entries) {
      Separate(first, style, level + 1);
      first = false;
      const Value& key = entry->first;
      switch (key.kind()) {
        case Kind::kString:
          WriteJsonString(key.text(), style.ensure_ascii);
          break;
        case Kind::kNone:
          out_.append("\"null\"");
          break;
        case Kind::kBool:
          out_.append(key.as_bool() ? "\"true\"" : "\"false\"");
          break;
        case Kind::kInt:
        case Kind::kFloat:
          out_.append("\"" + JsonNumber(key) + "\"");
          break;
        default:
          Fail(std::string("keys must be str, int, float, bool or None, not ") + TypeName(key));
      }
      out_.append(style.key_separator);
      WriteJson(entry->second, style, level + 1);
    }
    if (style.pretty) NewLine(style, level);
    out_.push_back('}');
  }

  void WriteJsonString(std::string_view text, bool ensure_ascii) {
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = DecodeUtf8(text, at);
      const char32_t code = c.code_point;
      constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
      constexpr std::string_view kNames = "\"\\nrtfb";
      const size_t special =
          code < 0x80 ? kSpecial.find(static_cast<char>(code)) : std::string_view::npos;
      if (special != std::string_view::npos) {
        out_.push_back('\\');
        out_.push_back(kNames[special]);
      } else if (code < 0x20 || (ensure_ascii && code >= 0x7F)) {
        if (code == 0x7F) {
          out_.push_back('\x7F');
        } else if (code < 0x10000) {
          out_.append("\\u");
          AppendHex(code, 4, &out_);
        } else {
          out_.append("\\u");
          AppendHex(0xD800 + ((code - 0x10000) >> 10), 4, &out_);
          out_.append("\\u");
          AppendHex(0xDC00 + ((code - 0x10000) & 0x3FF), 4, &out_);
        }
      } else {
        out_.append(text.substr(at, c.size));
      }
      at += c.size;
    }
    out_.push_back('"');
  }

  Budget* budget_;
  std::string out_;
  size_t charged_ = 0;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t digits_at = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const std::string sign = text[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string Repr(const Value& value, Budget* budget) {
  Writer writer(budget);
  writer.WriteRepr(value);
  return writer.Take();
}

std::string ToText(const Value& value, Budget* budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.as_int());
    case Kind::kFloat:
      return FloatRepr(value.as_double());
    case Kind::kString:
    case Kind::kMarkup:
      budget->ChargeBytes(value.text().size());
      return value.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return Repr(value, budget);
    default:
      FailUnsupported(std::string("Printing a ") + TypeName(value));
  }
}

std::string ToJson(const Value& value, const JsonStyle& style, Budget* budget) {
  Writer writer(budget);
  writer.WriteJson(value, style, 0);
  return writer.Take();
}

std::string EscapeHtml(const std::string& text, Budget* budget) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  budget->ChargeBytes(out.size());
  return out;
}

}  // namespace slipstream::text::chat
