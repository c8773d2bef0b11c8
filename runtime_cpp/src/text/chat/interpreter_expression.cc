// Expressions.
#include <utility>

#include "text/chat/interpreter.h"
#include "text/chat/interpreter_nesting.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"

namespace slipstream::text::chat {

Value Interpreter::Lookup(const std::string& name) const {
  for (const Frame* frame = frame_.get(); frame != nullptr; frame = frame->parent.get()) {
    const auto found = frame->variables.find(name);
    if (found != frame->variables.end()) return found->second;
  }
  const auto found = globals_.variables.find(name);
  if (found != globals_.variables.end()) return found->second;
  if (IsFunction(name)) return Value::Function(name);
  return Value::Undefined("'" + name + "' is undefined");
}

Value Interpreter::Evaluate(const Expr& expr) {
  const Nesting nesting(this);
  runtime_->budget.ChargeSteps(1);
  position_ = expr.position;
  return EvaluateNode(expr);
}

Value Interpreter::EvaluateNode(const Expr& expr) {
  Budget* budget = &runtime_->budget;
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
      return Lookup(expr.name);
    case ExprKind::kList:
      return Value::List(EvaluateAll(expr.children));
    case ExprKind::kTuple:
      return Value::Tuple(EvaluateAll(expr.children));
    case ExprKind::kDict:
      return EvaluateDict(expr);
    case ExprKind::kGetAttr: {
      const Value object = Evaluate(*expr.children[0]);
      position_ = expr.position;
      return GetAttribute(object, expr.name, runtime_);
    }
    case ExprKind::kGetItem: {
      const Value object = Evaluate(*expr.children[0]);
      const Value key = Evaluate(*expr.children[1]);
      position_ = expr.position;
      return GetItem(object, key, runtime_);
    }
    case ExprKind::kSlice:
      return EvaluateSlice(expr);
    case ExprKind::kCall: {
      const Value callee = Evaluate(*expr.children[0]);
      const Arguments arguments = EvaluateArguments(expr);
      position_ = expr.position;
      return Call(callee, arguments);
    }
    case ExprKind::kFilter:
      return EvaluateFilter(expr);
    case ExprKind::kTest: {
      const Value value = Evaluate(*expr.children[0]);
      const Arguments arguments = EvaluateArguments(expr);
      position_ = expr.position;
      return Value::Bool(ApplyTest(expr.name, value, arguments, runtime_));
    }
    case ExprKind::kNegative:
      return Negative(Evaluate(*expr.children[0]));
    case ExprKind::kPositive:
      return Positive(Evaluate(*expr.children[0]));
    case ExprKind::kNot:
      return Value::Bool(!Truthy(Evaluate(*expr.children[0])));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value value;
      for (const ExprPtr& child : expr.children) {
        value = Evaluate(*child);
        if (Truthy(value) == (expr.kind == ExprKind::kOr)) break;
      }
      return value;
    }
    case ExprKind::kConcat: {
      std::string text;
      for (const ExprPtr& child : expr.children) {
        text += ToText(Evaluate(*child), budget);
        if (text.size() > kMaxStringBytes) budget->ChargeBytes(text.size());
      }
      return Value::String(std::move(text));
    }
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.children[0]);
      const Value right = Evaluate(*expr.children[1]);
      position_ = expr.position;
      return Arithmetic(expr.op, left, right, budget);
    }
    case ExprKind::kCompare:
      return EvaluateCompare(expr);
    case ExprKind::kConditional:
      if (Truthy(Evaluate(*expr.children[0]))) return Evaluate(*expr.children[1]);
      if (expr.children[2]) return Evaluate(*expr.children[2]);
      return Value::Undefined(
          "the inline if-expression evaluated to false and no else section was defined.");
  }
  return Value();
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExprPtr>& children) {
  runtime_->budget.ChargeBytes(children.size() * sizeof(Value));
  std::vector<Value> values;
  values.reserve(children.size());
  for (const ExprPtr& child : children) values.push_back(Evaluate(*child));
  return values;
}

Value Interpreter::EvaluateDict(const Expr& expr) {
  runtime_->budget.ChargeBytes(expr.children.size() * sizeof(Value));
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = Evaluate(*expr.children[i]);
    dict->Set(key, Evaluate(*expr.children[i + 1]));
  }
  return Value::Of(std::move(dict));
}

Value Interpreter::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = Evaluate(*expr.children[i + 1]);
    position_ = expr.position;
    if (!Compare(expr.ops[i], left, right, &runtime_->budget)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateSlice(const Expr& expr) {
  const Value object = Evaluate(*expr.children[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const ExprPtr& bound = expr.children[i + 1];
    bounds[i] = bound ? Evaluate(*bound) : Value::None();
  }
  position_ = expr.position;
  return Slice(object, bounds[0], bounds[1], bounds[2], runtime_);
}

Value Interpreter::EvaluateFilter(const Expr& expr) {
  // The operand of a filter block is taken before anything else can start another one.
  const Value value = expr.children[0] ? Evaluate(*expr.children[0]) : std::move(filter_operand_);
  const Arguments arguments = EvaluateArguments(expr);
  position_ = expr.position;
  return ApplyFilter(expr.name, value, arguments, runtime_);
}

Value Interpreter::FilterText(const Expr* chain, Value value) {
  if (chain == nullptr) return value;
  filter_operand_ = std::move(value);
  return Evaluate(*chain);
}

Arguments Interpreter::EvaluateArguments(const Expr& expr) {
  Arguments arguments;
  for (size_t i = 1; i < expr.children.size(); ++i) {
    arguments.positional.push_back(Evaluate(*expr.children[i]));
  }
  for (const auto& [name, value] : expr.keywords) {
    arguments.keywords.emplace_back(name, Evaluate(*value));
  }
  return arguments;
}

Value Interpreter::Call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kMethod:
      return CallMethod(callee.as_method(), arguments, runtime_);
    case Kind::kMacro:
      return CallMacro(callee.as_macro(), arguments);
    case Kind::kFunction:
      return CallFunction(callee.text(), arguments, runtime_);
    case Kind::kLoop:
      FailUnsupported("A recursive loop");
    default:
      RequireDefined(callee);
      Fail(std::string("'") + TypeName(callee) + "' object is not callable");
  }
}

}  // namespace slipstream::text::chat
