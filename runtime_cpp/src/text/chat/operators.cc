#include "text/chat/operators.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/chat/printing.h"

namespace slipstream::text::chat {
namespace {

[[noreturn]] void FailTypes(const char* op, const Value& a, const Value& b) {
  RequireDefined(a);
  RequireDefined(b);
  if (a.Is(Kind::kMarkup) || b.Is(Kind::kMarkup)) FailUnsupported("An operator on escaped text");
  Fail(std::string("unsupported operand type(s) for ") + op + ": '" + TypeName(a) + "' and '" +
       TypeName(b) + "'");
}

Value Checked(bool overflow, const int64_t& value) {
  if (overflow) FailUnsupported("An integer beyond 64 bits");
  return Value::Int(value);
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

double FloorModulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

/// As CPython computes it, which differs from floor(a / b) in the last bit at times.
double FloorQuotient(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

Value Power(const Value& a, const Value& b) {
  if (!a.integral() || !b.integral()) {
    const double base = a.as_double();
    if (base == 0 && b.as_double() < 0) Fail("0.0 cannot be raised to a negative power");
    if (base < 0 && std::trunc(b.as_double()) != b.as_double()) {
      FailUnsupported("A complex number");
    }
    const double result = std::pow(base, b.as_double());
    if (std::isinf(result) && std::isfinite(base) && std::isfinite(b.as_double())) {
      Fail("Result too large");
    }
    return Value::Float(result);
  }
  if (b.as_int() < 0) {
    if (a.as_int() == 0) Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(a.as_double(), b.as_double()));
  }
  int64_t result = 1;
  int64_t base = a.as_int();
  if (base == 0 || base == 1) return Value::Int(b.as_int() == 0 ? 1 : base);
  if (base == -1) return Value::Int(b.as_int() % 2 == 0 ? 1 : -1);
  for (int64_t i = 0; i < b.as_int(); ++i) {
    if (__builtin_mul_overflow(result, base, &result)) FailUnsupported("An integer beyond 64 bits");
  }
  return Value::Int(result);
}

Value IntArithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      return Checked(__builtin_add_overflow(a, b, &result), result);
    case Operator::kSubtract:
      return Checked(__builtin_sub_overflow(a, b, &result), result);
    case Operator::kMultiply:
      return Checked(__builtin_mul_overflow(a, b, &result), result);
    default:
      break;
  }
  if (b == 0) Fail("integer division or modulo by zero");
  if (op == Operator::kDivide) {
    constexpr int64_t kExact = int64_t{1} << 53;
    if (std::max(a, b) > kExact || std::min(a, b) < -kExact) {
      FailUnsupported("The quotient of integers this large");
    }
    return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {
    if (op == Operator::kModulo) return Value::Int(0);
    return Checked(__builtin_sub_overflow(int64_t{0}, a, &result), result);
  }
  const int64_t quotient = FloorDivide(a, b);
  return Value::Int(op == Operator::kModulo ? a - quotient * b : quotient);
}

Value FloatArithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::Float(a + b);
    case Operator::kSubtract:
      return Value::Float(a - b);
    case Operator::kMultiply:
      return Value::Float(a * b);
    default:
      break;
  }
  if (b == 0) Fail("float division by zero");
  if (op == Operator::kDivide) return Value::Float(a / b);
  return Value::Float(op == Operator::kModulo ? FloorModulo(a, b) : FloorQuotient(a, b));
}

Value Repeat(const Value& value, int64_t count, Budget* budget) {
  count = std::max<int64_t>(count, 0);
  const uint64_t size =
      value.string() ? value.text().size() : value.items().items.size() * sizeof(Value);
  if (size == 0) return value;
  if (static_cast<uint64_t>(count) > kMaxStringBytes / size) budget->ChargeBytes(UINT64_MAX);
  budget->ChargeBytes(size * static_cast<uint64_t>(count));
  if (value.string()) {
    std::string out;
    out.reserve(size * static_cast<uint64_t>(count));
    for (int64_t i = 0; i < count; ++i) out += value.text();
    return Value::String(std::move(out));
  }
  std::vector<Value> items;
  const auto& source = value.items().items;
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), source.begin(), source.end());
  return Value::Of(value.kind(), std::move(items));
}

bool Contains(const Value& item, const Value& container, Budget* budget) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.string()) {
        RequireDefined(item);
        Fail(std::string("'in <string>' requires string as left operand, not ") + TypeName(item));
      }
      budget->ChargeSteps(container.text().size() / 64);
      return container.text().find(item.text()) != std::string::npos;
    case Kind::kDict:
      return container.as_dict().Find(item) != nullptr;
    case Kind::kUndefined:
      return false;
    case Kind::kIterator: {
      // Python walks up to the first match and leaves the rest.
      Sequence& sequence = container.iterator();
      while (sequence.next < sequence.items.size()) {
        if (Equals(sequence.items[sequence.next++], item, budget)) return true;
      }
      return false;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      for (const Value& other : container.items().items) {
        if (Equals(item, other, budget)) return true;
      }
      return false;
    case Kind::kMarkup:
    case Kind::kLoop:
      FailUnsupported(std::string("'in' on a ") + TypeName(container));
    default:
      Fail(std::string("argument of type '") + TypeName(container) + "' is not iterable");
  }
}

}  // namespace

void RequireDefined(const Value& value) {
  if (value.undefined()) Fail(value.text().empty() ? "A value is undefined" : value.text());
}

Value Arithmetic(Operator op, const Value& a, const Value& b, Budget* budget) {
  static constexpr const char* kNames[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  if (op == Operator::kModulo && a.string()) return PercentFormat(a.text(), b, budget);
  if (a.number() && b.number()) {
    if (op == Operator::kPower) return Power(a, b);
    if (a.integral() && b.integral()) return IntArithmetic(op, a.as_int(), b.as_int());
    return FloatArithmetic(op, a.as_double(), b.as_double());
  }
  if (op == Operator::kAdd) {
    const auto textual = [](const Value& v) { return v.string() || v.Is(Kind::kMarkup); };
    if (a.kind() != b.kind() && textual(a) && textual(b)) {
      // Plain text that is added to escaped text is escaped.
      return Value::Markup((a.string() ? EscapeHtml(a.text(), budget) : a.text()) +
                           (b.string() ? EscapeHtml(b.text(), budget) : b.text()));
    }
    if (a.Is(Kind::kMarkup) && b.Is(Kind::kMarkup)) {
      budget->ChargeBytes(a.text().size() + b.text().size());
      return Value::Markup(a.text() + b.text());
    }
    if (a.string() && b.string()) {
      budget->ChargeBytes(a.text().size() + b.text().size());
      return Value::String(a.text() + b.text());
    }
    if (a.kind() == b.kind() && (a.Is(Kind::kList) || a.Is(Kind::kTuple))) {
      std::vector<Value> items = Iterate(a, budget);
      const std::vector<Value> more = Iterate(b, budget);
      items.insert(items.end(), more.begin(), more.end());
      return Value::Of(a.kind(), std::move(items));
    }
    if (a.string() && !b.undefined() && !b.Is(Kind::kMarkup)) {
      Fail(std::string("can only concatenate str (not \"") + TypeName(b) + "\") to str");
    }
  }
  if (op == Operator::kMultiply) {
    const auto repeatable = [](const Value& v) {
      return v.string() || v.Is(Kind::kList) || v.Is(Kind::kTuple);
    };
    if (repeatable(a) && b.integral()) return Repeat(a, b.as_int(), budget);
    if (repeatable(b) && a.integral()) return Repeat(b, a.as_int(), budget);
  }
  if (a.dict() && b.dict()) FailUnsupported("An operator on dicts");
  FailTypes(kNames[static_cast<int>(op)], a, b);
}

int Order(const Value& a, const Value& b, Budget* budget) {
  budget->ChargeSteps(1);
  if (a.number() && b.number()) {
    if (a.integral() && b.integral()) {
      return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    }
    const double x = a.as_double();
    const double y = b.as_double();
    if (std::isnan(x) || std::isnan(y)) FailUnsupported("Comparing NaN");
    return x < y ? -1 : x > y;
  }
  if (a.string() && b.string()) {
    // UTF-8 sorts as code points do.
    const int order = a.text().compare(b.text());
    return order < 0 ? -1 : order > 0;
  }
  if (a.kind() == b.kind() && (a.Is(Kind::kList) || a.Is(Kind::kTuple))) {
    const auto& left = a.items().items;
    const auto& right = b.items().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!Equals(left[i], right[i], budget)) return Order(left[i], right[i], budget);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size();
  }
  RequireDefined(a);
  RequireDefined(b);
  if (a.Is(Kind::kView) || a.Is(Kind::kMarkup) || b.Is(Kind::kMarkup)) {
    FailUnsupported(std::string("Comparing a ") + TypeName(a));
  }
  Fail(std::string("'<' not supported between instances of '") + TypeName(a) + "' and '" +
       TypeName(b) + "'");
}

bool Compare(Operator op, const Value& a, const Value& b, Budget* budget) {
  switch (op) {
    case Operator::kEqual:
      return Equals(a, b, budget);
    case Operator::kNotEqual:
      return !Equals(a, b, budget);
    case Operator::kIn:
      return Contains(a, b, budget);
    case Operator::kNotIn:
      return !Contains(a, b, budget);
    case Operator::kLess:
      return Order(a, b, budget) < 0;
    case Operator::kLessEqual:
      return Order(a, b, budget) <= 0;
    case Operator::kGreater:
      return Order(a, b, budget) > 0;
    default:
      return Order(a, b, budget) >= 0;
  }
}

Value Negative(const Value& a) {
  if (a.integral()) return IntArithmetic(Operator::kSubtract, 0, a.as_int());
  if (a.Is(Kind::kFloat)) return Value::Float(-a.as_double());
  RequireDefined(a);
  Fail(std::string("bad operand type for unary -: '") + TypeName(a) + "'");
}

Value Positive(const Value& a) {
  if (a.integral()) return Value::Int(a.as_int());
  if (a.Is(Kind::kFloat)) return a;
  RequireDefined(a);
  Fail(std::string("bad operand type for unary +: '") + TypeName(a) + "'");
}

}  // namespace slipstream::text::chat
