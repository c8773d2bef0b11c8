// Runs a parsed template.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/chat/ast.h"
#include "text/chat/runtime.h"

namespace slipstream::text::chat {

/// The variables of a block; those of the blocks around it are found through `parent`.
struct Frame {
  std::unordered_map<std::string, Value> variables;
  std::shared_ptr<Frame> parent;
};

/// A macro, or the body of a call block, with the variables that it can see.
struct Macro {
  const Stmt* definition = nullptr;
  std::shared_ptr<Frame> frame;
};

/// One rendering.
class Interpreter {
 public:
  explicit Interpreter(Runtime* runtime) : runtime_(runtime) {}

  void SetGlobal(const std::string& name, Value value);

  /// Throws ChatError, without the position; `position()` is where.
  std::string Run(const Block& block);
  Position position() const { return position_; }

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // interpreter.cc
  Flow Execute(const Block& block);
  Flow ExecuteOne(const Stmt& stmt);
  Flow ExecuteFor(const Stmt& stmt);
  void ExecuteCall(const Stmt& stmt);
  void ExecuteWith(const Stmt& stmt);
  /// What `block` prints, in a scope of its own.
  std::string Capture(const Block& block);
  void Assign(const Expr& target, Value value);
  void Print(std::string_view text);
  Value DefineMacro(const Stmt& stmt);
  Value CallMacro(const Macro& macro, const Arguments& arguments);
  void BindParameters(const Stmt& definition, const Arguments& arguments);
  void PushFrame();
  void PopFrame() { frame_ = frame_->parent; }

  // interpreter_expression.cc
  Value Evaluate(const Expr& expr);
  Value EvaluateNode(const Expr& expr);
  Value Lookup(const std::string& name) const;
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateDict(const Expr& expr);
  Value EvaluateSlice(const Expr& expr);
  Value EvaluateFilter(const Expr& expr);
  std::vector<Value> EvaluateAll(const std::vector<ExprPtr>& children);
  Arguments EvaluateArguments(const Expr& expr);
  Value Call(const Value& callee, const Arguments& arguments);
  /// Applies a chain whose innermost operand is absent.
  Value FilterText(const Expr* chain, Value value);

  /// Bounds the recursion of the interpreter itself.
  class Nesting;

  Runtime* runtime_;
  Frame globals_;
  std::shared_ptr<Frame> frame_;
  std::vector<std::unique_ptr<Macro>> macros_;
  std::string* out_ = nullptr;
  Value filter_operand_;
  Position position_;
  int32_t depth_ = 0;
  int32_t calls_ = 0;
};

}  // namespace slipstream::text::chat
