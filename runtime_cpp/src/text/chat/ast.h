// A parsed template. Immutable after parsing and shared by every rendering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/error.h"
#include "text/chat/value.h"

namespace slipstream::text::chat {

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kList,
  kTuple,
  kDict,     ///< children: key, value, key, value
  kGetAttr,  ///< children[0].name
  kGetItem,  ///< children[0][children[1]]
  kSlice,    ///< children[0][children[1]:children[2]:children[3]]; nullptr where absent
  kCall,     ///< children[0](children[1...], keywords)
  kFilter,   ///< children[0] | name(children[1...], keywords)
  kTest,     ///< children[0] is name(children[1...], keywords)
  kNegative,
  kPositive,
  kNot,
  kAnd,
  kOr,
  kConcat,
  kBinary,       ///< children[0] op children[1]
  kCompare,      ///< children[0] ops[0] children[1] ops[1] children[2] ...
  kConditional,  ///< children[1] if children[0] else children[2]; the last may be nullptr
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConst;
  Operator op = Operator::kAdd;
  Position position;
  int32_t depth = 1;  ///< Bounded by the parser.
  Value value;        ///< Of a constant.
  std::string name;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  std::vector<Operator> ops;
};

enum class StmtKind : uint8_t {
  kText,
  kOutput,
  kIf,          ///< expr, body, else_body
  kFor,         ///< target in expr if condition: body; else_body
  kSet,         ///< target = expr
  kSetBlock,    ///< target = body, through filter
  kMacro,       ///< name, parameters, defaults, body
  kCall,        ///< expr called with `caller` = the macro of parameters, defaults, body
  kFilter,      ///< body through filter
  kWith,        ///< targets = values: body
  kGeneration,  ///< body in a scope of its own
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  StmtKind kind = StmtKind::kText;
  Position position;
  std::string text;  ///< Of kText; the name of a macro.
  ExprPtr expr;
  ExprPtr target;
  ExprPtr condition;
  /// A chain of kFilter whose innermost operand is nullptr; or nullptr.
  ExprPtr filter;
  Block body;
  Block else_body;
  std::vector<std::string> parameters;
  /// Aligned with the end of `parameters`; of kWith: the values, aligned with `targets`.
  std::vector<ExprPtr> defaults;
  std::vector<ExprPtr> targets;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

}  // namespace slipstream::text::chat
