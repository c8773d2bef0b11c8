// Statements: what prints, assigns, branches and loops.
#include "text/chat/interpreter.h"

#include <algorithm>
#include <utility>

#include "text/chat/interpreter_nesting.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"

namespace slipstream::text::chat {

constexpr int32_t kMaxMacroCalls = 100;  // open at the same time

void Interpreter::SetGlobal(const std::string& name, Value value) {
  globals_.variables.insert_or_assign(name, std::move(value));
}

std::string Interpreter::Run(const Block& block) {
  frame_ = std::make_shared<Frame>();
  std::string out;
  out_ = &out;
  if (Execute(block) != Flow::kNext) Fail("'break' or 'continue' outside of a loop");
  return out;
}

void Interpreter::PushFrame() {
  auto frame = std::make_shared<Frame>();
  frame->parent = frame_;
  frame_ = std::move(frame);
}

void Interpreter::Print(std::string_view text) {
  runtime_->budget.ChargeBytes(text.size());
  out_->append(text);
  if (out_->size() > kMaxStringBytes) runtime_->budget.ChargeBytes(out_->size());
}

Interpreter::Flow Interpreter::Execute(const Block& block) {
  for (const auto& stmt : block) {
    const Flow flow = ExecuteOne(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteOne(const Stmt& stmt) {
  const Nesting nesting(this);
  runtime_->budget.ChargeSteps(1);
  position_ = stmt.position;
  switch (stmt.kind) {
    case StmtKind::kText:
      Print(stmt.text);
      break;
    case StmtKind::kOutput: {
      const Value value = Evaluate(*stmt.expr);
      position_ = stmt.position;
      Print(ToText(value, &runtime_->budget));
      break;
    }
    case StmtKind::kIf:
      return Execute(Truthy(Evaluate(*stmt.expr)) ? stmt.body : stmt.else_body);
    case StmtKind::kFor:
      return ExecuteFor(stmt);
    case StmtKind::kSet:
      Assign(*stmt.target, Evaluate(*stmt.expr));
      break;
    case StmtKind::kSetBlock: {
      Value value = Value::String(Capture(stmt.body));
      Assign(*stmt.target, FilterText(stmt.filter.get(), std::move(value)));
      break;
    }
    case StmtKind::kMacro:
      frame_->variables.insert_or_assign(stmt.text, DefineMacro(stmt));
      break;
    case StmtKind::kCall:
      ExecuteCall(stmt);
      break;
    case StmtKind::kFilter: {
      Value value = Value::String(Capture(stmt.body));
      Print(ToText(FilterText(stmt.filter.get(), std::move(value)), &runtime_->budget));
      break;
    }
    case StmtKind::kWith: {
      ExecuteWith(stmt);
      const Flow flow = Execute(stmt.body);
      PopFrame();
      return flow;
    }
    case StmtKind::kGeneration:
      Print(Capture(stmt.body));
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteFor(const Stmt& stmt) {
  std::vector<Value> items = Iterate(Evaluate(*stmt.expr), &runtime_->budget);
  if (stmt.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      PushFrame();
      Assign(*stmt.target, item);
      const bool keep = Truthy(Evaluate(*stmt.condition));
      PopFrame();
      if (keep) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    PushFrame();
    const Flow flow = Execute(stmt.else_body);
    PopFrame();
    return flow;
  }
  auto loop = std::make_shared<Loop>();
  loop->items = std::move(items);
  const Value loop_value = Value::Of(loop);
  for (; loop->index < loop->items.size(); ++loop->index) {
    runtime_->budget.ChargeSteps(1);
    PushFrame();
    frame_->variables.emplace("loop", loop_value);
    Assign(*stmt.target, loop->items[loop->index]);
    const Flow flow = Execute(stmt.body);
    PopFrame();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Interpreter::ExecuteWith(const Stmt& stmt) {
  // The values belong to the scope outside.
  std::vector<Value> values = EvaluateAll(stmt.defaults);
  PushFrame();
  for (size_t i = 0; i < values.size(); ++i) Assign(*stmt.targets[i], std::move(values[i]));
}

std::string Interpreter::Capture(const Block& block) {
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  PushFrame();
  const Flow flow = Execute(block);
  PopFrame();
  out_ = outer;
  if (flow != Flow::kNext) FailUnsupported("'break' or 'continue' out of a captured block");
  return text;
}

void Interpreter::Assign(const Expr& target, Value value) {
  switch (target.kind) {
    case ExprKind::kName:
      frame_->variables.insert_or_assign(target.name, std::move(value));
      return;
    case ExprKind::kGetAttr: {
      const Value object = Lookup(target.children[0]->name);
      if (!object.Is(Kind::kNamespace)) {
        Fail("cannot assign attribute on non-namespace object");
      }
      if (target.name.starts_with("_")) {
        Fail("A namespace cannot hold the attribute '" + target.name + "'");
      }
      object.as_namespace().fields.Set(target.name, std::move(value));
      return;
    }
    default: {
      RequireDefined(value);
      std::vector<Value> items = Iterate(value, &runtime_->budget);
      const size_t wanted = target.children.size();
      if (items.size() != wanted) {
        Fail((items.size() < wanted ? "not enough values to unpack (expected "
                                    : "too many values to unpack (expected ") +
             std::to_string(wanted) + ", got " + std::to_string(items.size()) + ")");
      }
      for (size_t i = 0; i < wanted; ++i) Assign(*target.children[i], std::move(items[i]));
    }
  }
}

Value Interpreter::DefineMacro(const Stmt& stmt) {
  runtime_->budget.ChargeBytes(sizeof(Macro));
  macros_.push_back(std::make_unique<Macro>(Macro{&stmt, frame_}));
  return Value::Of(macros_.back().get());
}

void Interpreter::ExecuteCall(const Stmt& stmt) {
  const Value callee = Evaluate(*stmt.expr->children[0]);
  Arguments arguments = EvaluateArguments(*stmt.expr);
  arguments.keywords.emplace_back("caller", DefineMacro(stmt));
  position_ = stmt.position;
  Print(ToText(Call(callee, arguments), &runtime_->budget));
}

Value Interpreter::CallMacro(const Macro& macro, const Arguments& arguments) {
  if (calls_ >= kMaxMacroCalls) {
    throw ChatError(StatusCode::kLimitExceeded, "Macros call each other deeper than " +
                                                    std::to_string(kMaxMacroCalls) + " levels");
  }
  ++calls_;
  std::shared_ptr<Frame> caller = std::exchange(frame_, macro.frame);
  PushFrame();
  BindParameters(*macro.definition, arguments);
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  if (Execute(macro.definition->body) != Flow::kNext) {
    Fail("'break' or 'continue' outside of a loop");
  }
  out_ = outer;
  frame_ = std::move(caller);
  --calls_;
  return Value::String(std::move(text));
}

void Interpreter::BindParameters(const Stmt& definition, const Arguments& arguments) {
  const std::vector<std::string>& parameters = definition.parameters;
  auto& variables = frame_->variables;
  const std::string name = "macro '" + definition.text + "'";
  const size_t given = std::min(arguments.positional.size(), parameters.size());
  for (size_t i = 0; i < given; ++i) variables[parameters[i]] = arguments.positional[i];
  auto kwargs = std::make_shared<Dict>();
  Value caller = Value::Undefined("No caller defined");
  for (const auto& [key, value] : arguments.keywords) {
    const auto found = std::find(parameters.begin(), parameters.end(), key);
    if (found != parameters.end()) {
      if (!variables.emplace(key, value).second) {
        Fail(name + " got multiple values for argument '" + key + "'");
      }
    } else if (key == "caller" && definition.uses_caller) {
      caller = value;
    } else if (definition.uses_kwargs) {
      kwargs->Set(key, value);
    } else {
      Fail(name + " takes no keyword argument '" + key + "'");
    }
  }
  if (arguments.positional.size() > parameters.size() && !definition.uses_varargs) {
    Fail(name + " takes not more than " + std::to_string(parameters.size()) + " argument(s)");
  }
  if (definition.uses_caller) variables.emplace("caller", caller);
  if (definition.uses_kwargs) variables.emplace("kwargs", Value::Of(std::move(kwargs)));
  if (definition.uses_varargs) {
    variables.emplace("varargs",
                      Value::Tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(given),
                                    arguments.positional.end()}));
  }
  const size_t without_default = parameters.size() - definition.defaults.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (variables.contains(parameters[i])) continue;
    Value value = Value::Undefined("parameter '" + parameters[i] + "' was not provided");
    if (i >= without_default) value = Evaluate(*definition.defaults[i - without_default]);
    variables.emplace(parameters[i], std::move(value));
  }
}

}  // namespace slipstream::text::chat
