// What may follow `is`.
#include <array>
#include <string>

#include "text/chat/operators.h"
#include "text/chat/runtime.h"
#include "text/chat/strings.h"

namespace slipstream::text::chat {
namespace {

/// Tests of the type alone; false when `name` is none of them.
bool TypeTest(const std::string& name, const Value& value, bool* result) {
  const Kind kind = value.kind();
  if (name == "defined" || name == "undefined") {
    *result = value.undefined() == (name == "undefined");
  } else if (name == "none") {
    *result = value.none();
  } else if (name == "boolean") {
    *result = kind == Kind::kBool;
  } else if (name == "true" || name == "false") {
    *result = kind == Kind::kBool && value.as_bool() == (name == "true");
  } else if (name == "integer") {
    *result = kind == Kind::kInt;
  } else if (name == "float") {
    *result = kind == Kind::kFloat;
  } else if (name == "number") {
    *result = value.number();
  } else if (name == "string") {
    *result = value.string() || kind == Kind::kMarkup;
  } else if (name == "mapping") {
    *result = value.dict();
  } else if (name == "iterable") {
    *result = value.undefined() || value.string() || value.sequence() || value.dict() ||
              kind == Kind::kMarkup || kind == Kind::kLoop;
  } else if (name == "sequence") {
    // An undefined value has the methods that jinja2 looks for.
    *result = value.undefined() || value.string() || value.indexable() || value.dict() ||
              kind == Kind::kMarkup;
  } else if (name == "callable") {
    // Undefined has a __call__ that fails.
    *result = value.undefined() || kind == Kind::kMethod || kind == Kind::kMacro ||
              kind == Kind::kFunction;
  } else {
    return false;
  }
  return true;
}

bool ComparisonOf(const std::string& name, Operator* op) {
  static constexpr std::pair<std::string_view, Operator> kNames[] = {
      {"eq", Operator::kEqual},        {"equalto", Operator::kEqual},
      {"==", Operator::kEqual},        {"ne", Operator::kNotEqual},
      {"!=", Operator::kNotEqual},     {"lt", Operator::kLess},
      {"lessthan", Operator::kLess},   {"<", Operator::kLess},
      {"le", Operator::kLessEqual},    {"<=", Operator::kLessEqual},
      {"gt", Operator::kGreater},      {"greaterthan", Operator::kGreater},
      {">", Operator::kGreater},       {"ge", Operator::kGreaterEqual},
      {">=", Operator::kGreaterEqual}, {"in", Operator::kIn},
  };
  for (const auto& [candidate, value] : kNames) {
    if (candidate == name) {
      *op = value;
      return true;
    }
  }
  return false;
}

}  // namespace

bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments,
               Runtime* runtime) {
  Budget* budget = &runtime->budget;
  budget->ChargeSteps(1);
  bool result = false;
  if (TypeTest(name, value, &result)) {
    Bound(name, arguments, {});
    return result;
  }
  Operator op;
  if (ComparisonOf(name, &op)) {
    const Bound bound(name, arguments, {"other"}, 1);
    return Compare(op, value, bound.Get(0), budget);
  }
  if (name == "odd" || name == "even") {
    Bound(name, arguments, {});
    const Value rest = Arithmetic(Operator::kModulo, value, Value::Int(2), budget);
    return Equals(rest, Value::Int(name == "odd" ? 1 : 0), budget);
  }
  if (name == "divisibleby") {
    const Bound bound(name, arguments, {"num"}, 1);
    return Equals(Arithmetic(Operator::kModulo, value, bound.Get(0), budget), Value::Int(0),
                  budget);
  }
  if (name == "lower" || name == "upper") {
    Bound(name, arguments, {});
    if (!value.string()) FailUnsupported("The test '" + name + "' of a " + TypeName(value));
    Method method;
    method.self = value;
    method.name = name == "lower" ? "islower" : "isupper";
    return CallMethod(method, {}, runtime).as_bool();
  }
  if (name == "sameas") {
    const Bound bound(name, arguments, {"other"}, 1);
    const Value other = bound.Get(0);
    // Only of these is identity the same everywhere.
    if (value.none() || other.none()) return value.none() && other.none();
    if (value.Is(Kind::kBool) && other.Is(Kind::kBool)) return value.as_bool() == other.as_bool();
    if (value.Is(Kind::kBool) || other.Is(Kind::kBool)) return false;
  }
  FailUnsupported("The test '" + name + "'");
}

}  // namespace slipstream::text::chat
