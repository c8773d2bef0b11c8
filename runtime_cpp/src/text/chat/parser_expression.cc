// Expressions, loosest operator first.
#include <algorithm>

#include "text/chat/parser.h"

namespace slipstream::text::chat {

ExprPtr Parser::Make(ExprKind kind, Position position) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->position = position;
  return expr;
}

void Parser::Adopt(Expr* parent, ExprPtr child) const {
  if (child) {
    parent->depth = std::max(parent->depth, child->depth + 1);
    if (parent->depth > kMaxExpressionDepth) {
      throw ChatError(StatusCode::kLimitExceeded,
                      At("An expression is nested deeper than " +
                             std::to_string(kMaxExpressionDepth) + " levels",
                         parent->position));
    }
  }
  parent->children.push_back(std::move(child));
}

ExprPtr Parser::Binary(Operator op, Position position, ExprPtr left, ExprPtr right) const {
  ExprPtr expr = Make(ExprKind::kBinary, position);
  expr->op = op;
  Adopt(expr.get(), std::move(left));
  Adopt(expr.get(), std::move(right));
  return expr;
}

ExprPtr Parser::ParseExpression(bool with_condition) {
  Nesting nesting(*this, &expression_depth_, kMaxExpressionDepth / 2);
  return with_condition ? ParseConditional() : ParseOr();
}

/// One expression, or a tuple of several without parentheses around them.
ExprPtr Parser::ParseTuple(bool with_condition, bool in_parentheses) {
  const Position position = current().position;
  const auto at_end = [&] {
    return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
           AtOperator(")");
  };
  std::vector<ExprPtr> items;
  bool comma = false;
  while (!at_end()) {
    items.push_back(ParseExpression(with_condition));
    if (!AtOperator(",")) break;
    comma = true;
    Next();
  }
  if (!comma) {
    if (!items.empty()) return std::move(items[0]);
    if (!in_parentheses) FailUnexpected("an expression");
  }
  ExprPtr tuple = Make(ExprKind::kTuple, position);
  for (ExprPtr& item : items) Adopt(tuple.get(), std::move(item));
  return tuple;
}

ExprPtr Parser::ParseConditional() {
  ExprPtr expr = ParseOr();
  while (AtName("if")) {
    ExprPtr conditional = Make(ExprKind::kConditional, current().position);
    Next();
    ExprPtr condition = ParseOr();
    ExprPtr otherwise;
    if (SkipName("else")) otherwise = ParseExpression();
    Adopt(conditional.get(), std::move(condition));
    Adopt(conditional.get(), std::move(expr));
    Adopt(conditional.get(), std::move(otherwise));
    expr = std::move(conditional);
  }
  return expr;
}

ExprPtr Parser::ParseOr() {
  ExprPtr expr = ParseAnd();
  if (!AtName("or")) return expr;
  ExprPtr any = Make(ExprKind::kOr, current().position);
  Adopt(any.get(), std::move(expr));
  while (SkipName("or")) Adopt(any.get(), ParseAnd());
  return any;
}

ExprPtr Parser::ParseAnd() {
  ExprPtr expr = ParseNot();
  if (!AtName("and")) return expr;
  ExprPtr all = Make(ExprKind::kAnd, current().position);
  Adopt(all.get(), std::move(expr));
  while (SkipName("and")) Adopt(all.get(), ParseNot());
  return all;
}

ExprPtr Parser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  Nesting nesting(*this, &expression_depth_, kMaxExpressionDepth / 2);
  ExprPtr expr = Make(ExprKind::kNot, current().position);
  Next();
  Adopt(expr.get(), ParseNot());
  return expr;
}

ExprPtr Parser::ParseCompare() {
  ExprPtr left = ParseSum();
  ExprPtr compare = Make(ExprKind::kCompare, current().position);
  while (true) {
    Operator op;
    if (AtOperator("==")) {
      op = Operator::kEqual;
    } else if (AtOperator("!=")) {
      op = Operator::kNotEqual;
    } else if (AtOperator("<")) {
      op = Operator::kLess;
    } else if (AtOperator("<=")) {
      op = Operator::kLessEqual;
    } else if (AtOperator(">")) {
      op = Operator::kGreater;
    } else if (AtOperator(">=")) {
      op = Operator::kGreaterEqual;
    } else if (AtName("in")) {
      op = Operator::kIn;
    } else if (AtName("not") && Look().kind == TokenKind::kName && Look().text == "in") {
      op = Operator::kNotIn;
      Next();
    } else {
      break;
    }
    if (left) Adopt(compare.get(), std::move(left));
    Next();
    compare->ops.push_back(op);
    Adopt(compare.get(), ParseSum());
  }
  return compare->ops.empty() ? std::move(left) : std::move(compare);
}

ExprPtr Parser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (AtOperator("+") || AtOperator("-")) {
    const Position position = current().position;
    const Operator op = AtOperator("+") ? Operator::kAdd : Operator::kSubtract;
    Next();
    left = Binary(op, position, std::move(left), ParseConcat());
  }
  return left;
}

ExprPtr Parser::ParseConcat() {
  ExprPtr left = ParseProduct();
  if (!AtOperator("~")) return left;
  ExprPtr concat = Make(ExprKind::kConcat, current().position);
  Adopt(concat.get(), std::move(left));
  while (SkipOperator("~")) Adopt(concat.get(), ParseProduct());
  return concat;
}

ExprPtr Parser::ParseProduct() {
  ExprPtr left = ParsePower();
  while (true) {
    Operator op;
    if (AtOperator("*")) {
      op = Operator::kMultiply;
    } else if (AtOperator("/")) {
      op = Operator::kDivide;
    } else if (AtOperator("//")) {
      op = Operator::kFloorDivide;
    } else if (AtOperator("%")) {
      op = Operator::kModulo;
    } else {
      return left;
    }
    const Position position = current().position;
    Next();
    left = Binary(op, position, std::move(left), ParsePower());
  }
}

ExprPtr Parser::ParsePower() {
  ExprPtr left = ParseUnary();
  while (AtOperator("**")) {
    const Position position = current().position;
    Next();
    left = Binary(Operator::kPower, position, std::move(left), ParseUnary());
  }
  return left;
}

ExprPtr Parser::ParseUnary(bool with_filter) {
  Nesting nesting(*this, &expression_depth_, kMaxExpressionDepth / 2);
  ExprPtr expr;
  if (AtOperator("-") || AtOperator("+")) {
    expr = Make(AtOperator("-") ? ExprKind::kNegative : ExprKind::kPositive, current().position);
    Next();
    Adopt(expr.get(), ParseUnary(false));
  } else {
    expr = ParsePrimary();
  }
  expr = ParsePostfix(std::move(expr));
  return with_filter ? ParseFilters(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::ParsePrimary() {
  ExprPtr expr = Make(ExprKind::kConst, current().position);
  switch (current().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text;
      for (; current().kind == TokenKind::kString; Next()) text += current().text;
      expr->value = Value::String(std::move(text));
      return expr;
    }
    case TokenKind::kInteger:
      expr->value = Value::Int(current().integer);
      Next();
      return expr;
    case TokenKind::kFloat:
      expr->value = Value::Float(current().real);
      Next();
      return expr;
    default:
      break;
  }
  if (SkipOperator("(")) {
    expr = ParseTuple(/*with_condition=*/true, /*in_parentheses=*/true);
    ExpectOperator(")");
    return expr;
  }
  return ParseListOrDict();
}

ExprPtr Parser::ParseName() {
  ExprPtr expr = Make(ExprKind::kConst, current().position);
  const std::string name = ExpectName();
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    expr->value = Value::Bool(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    expr->value = Value::None();
  } else {
    expr->kind = ExprKind::kName;
    expr->name = name;
    for (Stmt* macro : macros_) {
      macro->uses_caller |= name == "caller";
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
    }
  }
  return expr;
}

ExprPtr Parser::ParseListOrDict() {
  const bool dict = AtOperator("{");
  if (!dict && !AtOperator("[")) FailUnexpected("an expression");
  ExprPtr expr = Make(dict ? ExprKind::kDict : ExprKind::kList, current().position);
  const std::string_view end = dict ? "}" : "]";
  Next();
  while (!AtOperator(end)) {
    if (!expr->children.empty()) {
      ExpectOperator(",");
      if (AtOperator(end)) break;
    }
    Adopt(expr.get(), ParseExpression());
    if (dict) {
      ExpectOperator(":");
      Adopt(expr.get(), ParseExpression());
    }
  }
  Next();
  return expr;
}

ExprPtr Parser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (AtOperator("(")) {
      ExprPtr call = Make(ExprKind::kCall, current().position);
      Adopt(call.get(), std::move(expr));
      ParseArguments(call.get());
      expr = std::move(call);
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::ParseSubscript(ExprPtr expr) {
  const Position position = current().position;
  if (SkipOperator(".")) {
    if (current().kind == TokenKind::kInteger) {
      ExprPtr item = Make(ExprKind::kGetItem, position);
      ExprPtr index = Make(ExprKind::kConst, current().position);
      index->value = Value::Int(current().integer);
      Next();
      Adopt(item.get(), std::move(expr));
      Adopt(item.get(), std::move(index));
      return item;
    }
    ExprPtr attribute = Make(ExprKind::kGetAttr, position);
    attribute->name = ExpectName();
    Adopt(attribute.get(), std::move(expr));
    return attribute;
  }
  Next();
  ExprPtr item = Make(ExprKind::kGetItem, position);
  Adopt(item.get(), std::move(expr));
  ExprPtr first;
  if (!AtOperator(":")) first = ParseExpression();
  if (AtOperator(":")) {
    item->kind = ExprKind::kSlice;
    Adopt(item.get(), std::move(first));
    for (int part = 0; part < 2; ++part) {
      ExprPtr bound;
      if (SkipOperator(":") && !AtOperator("]") && !AtOperator(":")) bound = ParseExpression();
      Adopt(item.get(), std::move(bound));
    }
  } else {
    Adopt(item.get(), std::move(first));
  }
  if (AtOperator(",")) {
    throw ChatError(StatusCode::kIncompatible,
                    At("A subscript with several parts is not supported", current().position));
  }
  ExpectOperator("]");
  return item;
}

ExprPtr Parser::ParseFilters(ExprPtr expr, bool start_inline) {
  while (true) {
    if (AtOperator("|") || start_inline) {
      if (!start_inline) Next();
      start_inline = false;
      ExprPtr filter = Make(ExprKind::kFilter, current().position);
      filter->name = ExpectName();
      while (SkipOperator(".")) filter->name += "." + ExpectName();
      Adopt(filter.get(), std::move(expr));
      if (AtOperator("(")) ParseArguments(filter.get());
      expr = std::move(filter);
    } else if (expr && AtName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (expr && AtOperator("(")) {
      ExprPtr call = Make(ExprKind::kCall, current().position);
      Adopt(call.get(), std::move(expr));
      ParseArguments(call.get());
      expr = std::move(call);
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::ParseTest(ExprPtr expr) {
  Next();
  const Position position = current().position;
  const bool negated = SkipName("not");
  ExprPtr test = Make(ExprKind::kTest, position);
  test->name = ExpectName();
  Adopt(test.get(), std::move(expr));
  const TokenKind kind = current().kind;
  if (AtOperator("(")) {
    ParseArguments(test.get());
  } else if ((kind == TokenKind::kName || kind == TokenKind::kString ||
              kind == TokenKind::kInteger || kind == TokenKind::kFloat || AtOperator("[") ||
              AtOperator("{")) &&
             !AtName("else") && !AtName("or") && !AtName("and")) {
    if (AtName("is")) FailHere("You cannot chain multiple tests with is");
    Adopt(test.get(), ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  ExprPtr inverse = Make(ExprKind::kNot, position);
  Adopt(inverse.get(), std::move(test));
  return inverse;
}

void Parser::ParseArguments(Expr* call) {
  ExpectOperator("(");
  bool first = true;
  while (!AtOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    first = false;
    if (AtOperator("*") || AtOperator("**")) {
      throw ChatError(StatusCode::kIncompatible,
                      At("Unpacking arguments is not supported", current().position));
    }
    if (current().kind == TokenKind::kName && Look().kind == TokenKind::kOperator &&
        Look().text == "=") {
      std::string name = ExpectName();
      Next();
      ExprPtr value = ParseExpression();
      for (const auto& keyword : call->keywords) {
        if (keyword.first == name) FailHere("The argument '" + name + "' is repeated");
      }
      // Adopt measures depth; keywords live apart from the positional arguments.
      Adopt(call, std::move(value));
      call->keywords.emplace_back(std::move(name), std::move(call->children.back()));
      call->children.pop_back();
    } else {
      if (!call->keywords.empty()) FailHere("A positional argument follows a keyword argument");
      Adopt(call, ParseExpression());
    }
  }
  Next();
}

}  // namespace slipstream::text::chat
