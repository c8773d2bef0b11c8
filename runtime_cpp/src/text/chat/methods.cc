// The methods of strings, lists, dicts and of `loop`.
#include <algorithm>
#include <array>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/runtime.h"
#include "text/chat/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

constexpr std::array<std::string_view, 26> kStringMethods = {
    "strip",        "lstrip",  "rstrip",  "split",   "rsplit",    "splitlines", "startswith",
    "endswith",     "replace", "upper",   "lower",   "title",     "capitalize", "join",
    "find",         "rfind",   "count",   "format",  "partition", "rpartition", "removeprefix",
    "removesuffix", "isspace", "isupper", "islower", "isdigit"};

Value StringList(std::vector<std::string> parts, Budget* budget) {
  budget->ChargeBytes(parts.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.push_back(Value::String(std::move(part)));
  return Value::List(std::move(items));
}

/// startswith and endswith take one text or a tuple of them.
bool Matches(std::string_view text, const Value& affix, bool at_start) {
  if (affix.Is(Kind::kTuple)) {
    const auto& items = affix.items().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return Matches(text, item, at_start); });
  }
  if (!affix.string()) {
    RequireDefined(affix);
    Fail(std::string(at_start ? "startswith" : "endswith") +
         " first arg must be str or a tuple of str, not " + TypeName(affix));
  }
  return at_start ? text.starts_with(affix.text()) : text.ends_with(affix.text());
}

/// str.isupper and str.islower.
bool AllCased(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const CharClass properties = CharClass::Of(c.code_point);
    if (c.code_point >= 0x80 && properties.In(kSetL | CategoryBit(kNl) | CategoryBit(kSo)) &&
        !properties.In(CategoryBit(kLu) | CategoryBit(kLl) | CategoryBit(kLo))) {
      FailUnsupported("The case of this text");
    }
    if (properties.In(CategoryBit(upper ? kLl : kLu) | CategoryBit(kLt))) return false;
    any |= properties.In(CategoryBit(upper ? kLu : kLl));
    at += c.size;
  }
  return any;
}

/// str.format with `{}`, `{0}` and `{name}`.
Value Format(const std::string& text, const Arguments& arguments, Runtime* runtime) {
  std::string out;
  size_t automatic = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      out.push_back(c);
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      out.push_back(c);
      ++i;
      continue;
    }
    const size_t close = text.find('}', i);
    if (c == '}' || close == std::string::npos) Fail("A single brace in a format string");
    const std::string field = text.substr(i + 1, close - i - 1);
    i = close;
    if (field.find_first_of("!:.[{") != std::string::npos) {
      FailUnsupported("The replacement field '{" + field + "}'");
    }
    const bool position =
        std::all_of(field.begin(), field.end(), [](char d) { return d >= '0' && d <= '9'; });
    if (position && field.size() > 4) FailUnsupported("The replacement field '{" + field + "}'");
    if (position) {
      const size_t index = field.empty() ? automatic++ : std::stoul(field);
      if (index >= arguments.positional.size()) Fail("Replacement index out of range");
      out += ToText(arguments.positional[index], &runtime->budget);
    } else {
      const auto found = std::find_if(arguments.keywords.begin(), arguments.keywords.end(),
                                      [&](const auto& keyword) { return keyword.first == field; });
      if (found == arguments.keywords.end()) Fail("'" + field + "' is missing in format()");
      out += ToText(found->second, &runtime->budget);
    }
    if (out.size() > kMaxStringBytes) runtime->budget.ChargeBytes(out.size());
  }
  return Value::String(std::move(out));
}

int64_t FindText(const std::string& text, const Bound& bound, bool last) {
  if (bound.Has(1) || bound.Has(2)) FailUnsupported("find() with a range");
  const std::string needle = bound.Text(0, "");
  const size_t found = last ? text.rfind(needle) : text.find(needle);
  if (found == std::string::npos) return -1;
  return CharacterCount(std::string_view(text).substr(0, found));
}

int64_t CountText(const std::string& text, const std::string& needle) {
  if (needle.empty()) return CharacterCount(text) + 1;
  int64_t count = 0;
  for (size_t at = text.find(needle); at != std::string::npos;
       at = text.find(needle, at + needle.size())) {
    ++count;
  }
  return count;
}

Value Partition(const std::string& text, const std::string& separator, bool last) {
  if (separator.empty()) Fail("empty separator");
  const size_t found = last ? text.rfind(separator) : text.find(separator);
  const auto tuple = [](std::string a, std::string b, std::string c) {
    return Value::Tuple(
        {Value::String(std::move(a)), Value::String(std::move(b)), Value::String(std::move(c))});
  };
  if (found == std::string::npos) return last ? tuple("", "", text) : tuple(text, "", "");
  return tuple(text.substr(0, found), separator, text.substr(found + separator.size()));
}

Value CallSplit(const Method& method, const Arguments& arguments, Runtime* runtime) {
  const Bound bound(method.name, arguments, {"sep", "maxsplit"});
  std::string separator;
  if (bound.Has(0) && !bound.Get(0).none()) {
    separator = bound.Text(0, "");
    if (separator.empty()) Fail("empty separator");
  }
  return StringList(Split(method.self.text(), separator, bound.Int(1, -1), method.name == "rsplit"),
                    &runtime->budget);
}

Value CallStringMethod(const Method& method, const Arguments& arguments, Runtime* runtime) {
  const std::string& name = method.name;
  const std::string& text = method.self.text();
  Budget* budget = &runtime->budget;
  budget->ChargeBytes(text.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Bound bound(name, arguments, {"chars"});
    const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
    if (!bound.Has(0) || bound.Get(0).none()) return Value::String(std::string(Strip(text, side)));
    return Value::String(std::string(StripSet(text, bound.Text(0, ""), side)));
  }
  if (name == "split" || name == "rsplit") return CallSplit(method, arguments, runtime);
  if (name == "splitlines") {
    const Bound bound(name, arguments, {"keepends"});
    return StringList(SplitLines(text, bound.Flag(0, false)), budget);
  }
  if (name == "startswith" || name == "endswith") {
    const Bound bound(name, arguments, {"prefix", "start", "end"}, 1);
    if (bound.Has(1) || bound.Has(2)) FailUnsupported(name + "() with a range");
    return Value::Bool(Matches(text, bound.Get(0), name == "startswith"));
  }
  if (name == "replace") {
    const Bound bound(name, arguments, {"old", "new", "count"}, 2);
    return Value::String(
        Replace(text, bound.Text(0, ""), bound.Text(1, ""), bound.Int(2, -1), budget));
  }
  if (name == "format") return Format(text, arguments, runtime);
  if (name == "join") {
    const Bound bound(name, arguments, {"iterable"}, 1);
    std::string out;
    bool first = true;
    RequireDefined(bound.Get(0));
    for (const Value& item : Iterate(bound.Get(0), budget)) {
      if (!item.string()) {
        Fail(std::string("join() expects str items, found ") + TypeName(item));
      }
      budget->ChargeBytes(text.size() + item.text().size());
      if (!first) out += text;
      first = false;
      out += item.text();
      if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
    }
    return Value::String(std::move(out));
  }
  if (name == "find" || name == "rfind") {
    const Bound bound(name, arguments, {"sub", "start", "end"}, 1);
    return Value::Int(FindText(text, bound, name == "rfind"));
  }
  if (name == "count") {
    const Bound bound(name, arguments, {"sub", "start", "end"}, 1);
    if (bound.Has(1) || bound.Has(2)) FailUnsupported("count() with a range");
    return Value::Int(CountText(text, bound.Text(0, "")));
  }
  if (name == "partition" || name == "rpartition") {
    const Bound bound(name, arguments, {"sep"}, 1);
    return Partition(text, bound.Text(0, ""), name == "rpartition");
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const Bound bound(name, arguments, {"affix"}, 1);
    const std::string affix = bound.Text(0, "");
    const bool prefix = name == "removeprefix";
    if (!(prefix ? text.starts_with(affix) : text.ends_with(affix))) return method.self;
    return Value::String(prefix ? text.substr(affix.size())
                                : text.substr(0, text.size() - affix.size()));
  }
  Bound(name, arguments, {});
  if (name == "upper") return Value::String(ChangeCase(text, Case::kUpper));
  if (name == "lower") return Value::String(ChangeCase(text, Case::kLower));
  if (name == "title") return Value::String(ChangeCase(text, Case::kTitle));
  if (name == "capitalize") return Value::String(ChangeCase(text, Case::kCapitalize));
  if (name == "isspace") return Value::Bool(!text.empty() && Strip(text).empty());
  if (name == "isdigit") {
    bool digits = !text.empty();
    for (char c : text) {
      if (static_cast<uint8_t>(c) >= 0x80) FailUnsupported("isdigit() beyond ASCII");
      digits &= c >= '0' && c <= '9';
    }
    return Value::Bool(digits);
  }
  return Value::Bool(AllCased(text, name == "isupper"));
}

Value CallDictMethod(const Method& method, const Arguments& arguments, Runtime* runtime) {
  const Dict& dict = method.self.as_dict();
  if (method.name == "get") {
    if (!arguments.keywords.empty()) Fail("dict.get() takes no keyword arguments");
    const Bound bound("get", arguments, {"key", "default"}, 1);
    const Value* found = dict.Find(bound.Get(0));
    return found != nullptr ? *found : bound.Get(1, Value::None());
  }
  Bound(method.name, arguments, {});
  runtime->budget.ChargeBytes(dict.entries.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    if (method.name == "keys") {
      items.push_back(key);
    } else if (method.name == "values") {
      items.push_back(value);
    } else {
      items.push_back(Value::Tuple({key, value}));
    }
  }
  return Value::Of(Kind::kView, std::move(items));
}

Value CallSequenceMethod(const Method& method, const Arguments& arguments, Runtime* runtime) {
  const Bound bound(method.name, arguments, {"value"}, 1);
  const auto& items = method.self.items().items;
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!Equals(items[i], bound.Get(0), &runtime->budget)) continue;
    if (method.name == "index") return Value::Int(static_cast<int64_t>(i));
    ++count;
  }
  if (method.name == "index") Fail("The value is not in the list");
  return Value::Int(count);
}

Value CallLoopMethod(const Method& method, const Arguments& arguments, Runtime* runtime) {
  if (!arguments.keywords.empty()) Fail(method.name + "() takes no keyword arguments");
  Loop& loop = method.self.as_loop();
  if (method.name == "cycle") {
    if (arguments.positional.empty()) Fail("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  const Value now = Value::Tuple(arguments.positional);
  const bool changed =
      !loop.changed_called || !Equals(Value::Tuple(loop.last_changed), now, &runtime->budget);
  loop.changed_called = true;
  loop.last_changed = arguments.positional;
  return Value::Bool(changed);
}

}  // namespace

bool HasMethod(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return std::find(kStringMethods.begin(), kStringMethods.end(), name) != kStringMethods.end();
    case Kind::kDict:
      return name == "get" || name == "items" || name == "keys" || name == "values";
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return name == "index" || name == "count";
    default:
      return false;
  }
}

Value CallMethod(const Method& method, const Arguments& arguments, Runtime* runtime) {
  switch (method.self.kind()) {
    case Kind::kString:
      return CallStringMethod(method, arguments, runtime);
    case Kind::kDict:
      return CallDictMethod(method, arguments, runtime);
    case Kind::kLoop:
      return CallLoopMethod(method, arguments, runtime);
    default:
      return CallSequenceMethod(method, arguments, runtime);
  }
}

}  // namespace slipstream::text::chat
