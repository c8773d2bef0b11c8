// x.name, x[key] and x[a:b:c], as jinja2's sandbox resolves them.
#include <algorithm>
#include <array>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/runtime.h"
#include "text/chat/strings.h"

namespace slipstream::text::chat {
namespace {

template <size_t N>
bool In(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The sandbox hides what would change a value.
bool Mutates(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear",  "extend",  "insert",
                                                            "pop",    "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault",
                                                            "update"};
  return (object.Is(Kind::kList) && In(kList, name)) || (object.dict() && In(kDict, name));
}

/// Attributes that Python has and this interpreter has not.
bool KnownToPython(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 21> kString = {
      "casefold",  "encode",    "expandtabs",  "format_map",   "isalnum", "isalpha",   "isascii",
      "isdecimal", "isnumeric", "isprintable", "isidentifier", "istitle", "maketrans", "swapcase",
      "translate", "rindex",    "index",       "zfill",        "center",  "ljust",     "rjust"};
  static constexpr std::array<std::string_view, 12> kNumber = {
      "real",      "imag",     "numerator",  "denominator",      "bit_length", "bit_count",
      "conjugate", "to_bytes", "from_bytes", "as_integer_ratio", "is_integer", "hex"};
  static constexpr std::array<std::string_view, 6> kSequence = {"index", "count", "copy",
                                                                "start", "stop",  "step"};
  static constexpr std::array<std::string_view, 3> kDict = {"copy", "fromkeys", "mapping"};
  switch (object.kind()) {
    case Kind::kString:
      return In(kString, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return name == "fromhex" || In(kNumber, name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return In(kSequence, name);
    case Kind::kDict:
      return In(kDict, name);
    case Kind::kView:
      return name == "mapping" || name == "isdisjoint";
    case Kind::kNone:
    case Kind::kNamespace:
      return false;
    case Kind::kLoop:
      return name == "depth" || name == "depth0";
    default:
      return true;
  }
}

std::string Described(const Value& object) {
  return object.none() ? "'None'" : std::string("'") + TypeName(object) + " object'";
}

Value NoAttribute(const Value& object, const std::string& name) {
  return Value::Undefined(Described(object) + " has no attribute '" + name + "'");
}

Value LoopAttribute(const Value& object, const std::string& name) {
  const Loop& loop = object.as_loop();
  const int64_t index = static_cast<int64_t>(loop.index);
  const int64_t size = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == size);
  if (name == "length") return Value::Int(size);
  if (name == "revindex") return Value::Int(size - index);
  if (name == "revindex0") return Value::Int(size - index - 1);
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") {
    return index > 0 ? loop.items[loop.index - 1] : Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < size ? loop.items[loop.index + 1]
                            : Value::Undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") return Value::Bound(object, name);
  return NoAttribute(object, name);
}

/// Sets `result` when Python's getattr finds something.
bool PythonAttribute(const Value& object, const std::string& name, Value* result) {
  if (name.starts_with("__")) FailUnsupported("The attribute '" + name + "'");
  if (object.Is(Kind::kLoop)) {
    *result = LoopAttribute(object, name);
    return !result->undefined() || name == "previtem" || name == "nextitem";
  }
  if (object.Is(Kind::kNamespace)) {
    const Value* field = object.as_namespace().fields.Find(name);
    if (field != nullptr) *result = *field;
    return field != nullptr;
  }
  if (Mutates(object, name)) {
    *result = Value::Undefined("access to attribute '" + name + "' of '" + TypeName(object) +
                               "' object is unsafe.");
    return true;
  }
  if (HasMethod(object, name)) {
    *result = Value::Bound(object, name);
    return true;
  }
  if (KnownToPython(object, name)) {
    FailUnsupported("The attribute '" + name + "' of a " + TypeName(object));
  }
  return false;
}

/// Sets `result` when object[key] is there.
bool PythonItem(const Value& object, const Value& key, Value* result) {
  switch (object.kind()) {
    case Kind::kDict: {
      if (key.Is(Kind::kList) || key.dict()) return false;
      const Value* found = object.as_dict().Find(key);
      if (found != nullptr) *result = *found;
      return found != nullptr;
    }
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange: {
      if (!key.integral()) return false;
      const int64_t size = Length(object);
      int64_t index = key.as_int();
      if (index < 0) index += size;
      if (index < 0 || index >= size) return false;
      if (object.string()) {
        *result = Value::String(std::string(Characters(object.text())[static_cast<size_t>(index)]));
      } else {
        *result = object.items().items[static_cast<size_t>(index)];
      }
      return true;
    }
    case Kind::kMarkup:
      FailUnsupported("An item of escaped text");
    default:
      return false;
  }
}

int64_t Bounded(const Value& bound, int64_t otherwise) {
  if (bound.none()) return otherwise;
  if (!bound.integral()) Fail("slice indices must be integers or None");
  return bound.as_int();
}

}  // namespace

Value GetAttribute(const Value& object, const std::string& name, Runtime* runtime) {
  runtime->budget.ChargeSteps(1);
  RequireDefined(object);
  Value result;
  if (PythonAttribute(object, name, &result)) return result;
  if (object.dict() && PythonItem(object, Value::String(name), &result)) return result;
  return NoAttribute(object, name);
}

Value GetItem(const Value& object, const Value& key, Runtime* runtime) {
  runtime->budget.ChargeSteps(object.string() ? 1 + object.text().size() / 16 : 1);
  RequireDefined(object);
  Value result;
  if (PythonItem(object, key, &result)) return result;
  if (key.string()) {
    if (PythonAttribute(object, key.text(), &result)) return result;
    return NoAttribute(object, key.text());
  }
  return Value::Undefined(Described(object) + " has no element " +
                          (key.undefined() ? "Undefined" : Repr(key, &runtime->budget)));
}

Value Slice(const Value& object, const Value& start, const Value& stop, const Value& step,
            Runtime* runtime) {
  RequireDefined(object);
  if (object.Is(Kind::kMarkup)) FailUnsupported("A slice of escaped text");
  if (!object.string() && !object.indexable()) {
    // jinja2 fails, or folds a constant to an undefined value.
    FailUnsupported(std::string("A slice of a ") + TypeName(object));
  }
  const std::vector<Value> items = Iterate(object, &runtime->budget);
  const int64_t size = static_cast<int64_t>(items.size());
  const int64_t stride = Bounded(step, 1);
  if (stride == 0) Fail("slice step cannot be zero");
  const bool backwards = stride < 0;
  const auto place = [&](const Value& bound, int64_t otherwise) {
    int64_t index = Bounded(bound, otherwise);
    if (bound.none()) return index;
    if (index < 0) index = index < -size ? -1 : index + size;
    if (index < 0) return backwards ? int64_t{-1} : int64_t{0};
    return std::min(index, backwards ? size - 1 : size);
  };
  const int64_t first = place(start, backwards ? size - 1 : 0);
  const int64_t end = place(stop, backwards ? -1 : size);
  std::vector<Value> taken;
  std::string text;
  for (int64_t i = first; backwards ? i > end : i < end;) {
    const Value& item = items[static_cast<size_t>(i)];
    if (object.string()) {
      text += item.text();
    } else {
      taken.push_back(item);
    }
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (object.string()) return Value::String(std::move(text));
  return Value::Of(object.kind(), std::move(taken));
}

Value GetPath(const Value& object, const Value& path, Runtime* runtime) {
  if (path.none() || path.undefined()) return object;
  if (path.integral()) return GetItem(object, Value::Int(path.as_int()), runtime);
  if (!path.string()) FailUnsupported(std::string("An attribute given as ") + TypeName(path));
  Value value = object;
  for (const std::string& part : Split(path.text(), ".", -1, false)) {
    const bool index =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    value = GetItem(value, index ? Value::Int(std::stoi(part)) : Value::String(part), runtime);
  }
  return value;
}

}  // namespace slipstream::text::chat
