// Tokens to statements and expressions, by jinja2's grammar.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/ast.h"
#include "text/chat/lexer.h"

namespace slipstream::text::chat {

constexpr int32_t kMaxExpressionDepth = 200;
constexpr int32_t kMaxBlockDepth = 60;

/// Parses `source`, which is valid UTF-8. Throws ChatError with the position in its message.
Block ParseTemplate(std::string_view source);

/// Shared by the two halves of the parser.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block ParseAll();

 private:
  // parser.cc
  Block ParseUntil(const std::vector<std::string_view>& ends);
  std::unique_ptr<Stmt> ParseTag();
  void ParseIf(Stmt* stmt);
  void ParseFor(Stmt* stmt);
  void ParseSet(Stmt* stmt);
  void ParseWith(Stmt* stmt);
  void ParseMacro(Stmt* stmt);
  void ParseSignature(Stmt* stmt);
  void ParseMacroBody(Stmt* stmt, std::string_view end);
  ExprPtr ParseTarget(bool allow_attribute, bool allow_tuple, bool allow_parentheses = true);

  // parser_expression.cc
  ExprPtr ParseExpression(bool with_condition = true);
  ExprPtr ParseTuple(bool with_condition = true, bool in_parentheses = false);
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter = true);
  ExprPtr ParsePrimary();
  ExprPtr ParseName();
  ExprPtr ParseListOrDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFilters(ExprPtr expr, bool start_inline = false);
  ExprPtr ParseTest(ExprPtr expr);
  ExprPtr ParseSubscript(ExprPtr expr);
  void ParseArguments(Expr* call);
  ExprPtr Make(ExprKind kind, Position position) const;
  /// Adds a child and keeps the depth of `parent`, which has a limit.
  void Adopt(Expr* parent, ExprPtr child) const;
  ExprPtr Binary(Operator op, Position position, ExprPtr left, ExprPtr right) const;

  // The stream.
  const Token& current() const { return tokens_[next_]; }
  const Token& Look() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  bool AtOperator(std::string_view op) const {
    return current().kind == TokenKind::kOperator && current().text == op;
  }
  bool AtName(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
  }
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  void ExpectOperator(std::string_view op);
  void ExpectBlockEnd();
  std::string ExpectName();
  void Next() {
    if (current().kind != TokenKind::kEnd) ++next_;
  }
  [[noreturn]] void FailHere(const std::string& message) const;
  [[noreturn]] void FailUnexpected(std::string_view wanted) const;

  /// Counts recursion of the parser itself.
  class Nesting {
   public:
    Nesting(const Parser& parser, int32_t* depth, int32_t limit);
    ~Nesting() { --*depth_; }

   private:
    int32_t* depth_;
  };

  std::vector<Token> tokens_;
  size_t next_ = 0;
  int32_t expression_depth_ = 0;
  int32_t block_depth_ = 0;
  /// Names that the macro being parsed mentions, for its varargs, kwargs and caller.
  std::vector<Stmt*> macros_;
};

}  // namespace slipstream::text::chat
