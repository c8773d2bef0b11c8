#include "text/chat/parser.h"

#include <algorithm>

namespace slipstream::text::chat {

Parser::Nesting::Nesting(const Parser& parser, int32_t* depth, int32_t limit) : depth_(depth) {
  if (++*depth_ > limit) {
    --*depth_;
    throw ChatError(StatusCode::kLimitExceeded,
                    At("The template is nested deeper than " + std::to_string(limit) + " levels",
                       parser.current().position));
  }
}

void Parser::FailHere(const std::string& message) const { Fail(At(message, current().position)); }

void Parser::FailUnexpected(std::string_view wanted) const {
  std::string found;
  switch (current().kind) {
    case TokenKind::kEnd:
      found = "the end of the template";
      break;
    case TokenKind::kBlockEnd:
      found = "'%}'";
      break;
    case TokenKind::kVariableEnd:
      found = "'}}'";
      break;
    default:
      found = "'" + current().text.substr(0, 40) + "'";
  }
  FailHere("Expected " + std::string(wanted) + ", found " + found);
}

bool Parser::SkipOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

void Parser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) FailUnexpected("'" + std::string(op) + "'");
}

void Parser::ExpectBlockEnd() {
  if (current().kind != TokenKind::kBlockEnd) FailUnexpected("the end of the tag");
  Next();
}

std::string Parser::ExpectName() {
  if (current().kind != TokenKind::kName) FailUnexpected("a name");
  std::string name = current().text;
  Next();
  return name;
}

Block Parser::ParseAll() { return ParseUntil({}); }

/// Statements up to the tag whose name is one of `ends`; its name is the current token then.
/// Without ends, up to the end of the template.
Block Parser::ParseUntil(const std::vector<std::string_view>& ends) {
  Nesting nesting(*this, &block_depth_, kMaxBlockDepth);
  Block block;
  while (true) {
    const Token& token = current();
    auto stmt = std::make_unique<Stmt>();
    stmt->position = token.position;
    switch (token.kind) {
      case TokenKind::kText:
        stmt->text = token.text;
        Next();
        break;
      case TokenKind::kVariableBegin:
        Next();
        stmt->kind = StmtKind::kOutput;
        stmt->expr = ParseTuple();
        if (current().kind != TokenKind::kVariableEnd) FailUnexpected("'}}'");
        Next();
        break;
      case TokenKind::kBlockBegin: {
        Next();
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end() &&
            current().kind == TokenKind::kName) {
          return block;
        }
        stmt = ParseTag();
        break;
      }
      default:
        if (ends.empty()) return block;
        FailUnexpected("'{% " + std::string(ends.back()) + " %}'");
    }
    block.push_back(std::move(stmt));
  }
}

std::unique_ptr<Stmt> Parser::ParseTag() {
  auto stmt = std::make_unique<Stmt>();
  stmt->position = current().position;
  const std::string tag = current().kind == TokenKind::kName ? current().text : "";
  if (tag == "if") {
    Next();
    ParseIf(stmt.get());
    return stmt;
  }
  if (tag == "for") {
    Next();
    ParseFor(stmt.get());
  } else if (tag == "set") {
    Next();
    ParseSet(stmt.get());
  } else if (tag == "macro" || tag == "call") {
    Next();
    if (tag == "macro") {
      ParseMacro(stmt.get());
    } else {
      stmt->kind = StmtKind::kCall;
      if (AtOperator("(")) ParseSignature(stmt.get());
      stmt->expr = ParseExpression();
      if (stmt->expr->kind != ExprKind::kCall) FailHere("A call block needs a call");
      ParseMacroBody(stmt.get(), "endcall");
    }
  } else if (tag == "filter") {
    Next();
    stmt->kind = StmtKind::kFilter;
    stmt->filter = ParseFilters(nullptr, true);
    ExpectBlockEnd();
    stmt->body = ParseUntil({"endfilter"});
    Next();
  } else if (tag == "with") {
    Next();
    ParseWith(stmt.get());
  } else if (tag == "generation") {
    Next();
    stmt->kind = StmtKind::kGeneration;
    ExpectBlockEnd();
    stmt->body = ParseUntil({"endgeneration"});
    Next();
  } else if (tag == "break" || tag == "continue") {
    Next();
    stmt->kind = tag == "break" ? StmtKind::kBreak : StmtKind::kContinue;
  } else {
    static constexpr std::string_view kOthers[] = {"block", "extends", "include",   "import",
                                                   "from",  "print",   "autoescape"};
    if (std::find(std::begin(kOthers), std::end(kOthers), tag) != std::end(kOthers)) {
      throw ChatError(StatusCode::kIncompatible,
                      At("The tag '" + tag + "' is not supported", current().position));
    }
    if (tag.empty()) FailUnexpected("the name of a tag");
    FailHere("Unknown tag '" + tag + "'");
  }
  ExpectBlockEnd();
  return stmt;
}

/// `if` and every `elif` are one statement each, the later inside the else of the earlier.
void Parser::ParseIf(Stmt* stmt) {
  std::vector<Stmt*> chain = {stmt};
  while (true) {
    Stmt* branch = chain.back();
    branch->kind = StmtKind::kIf;
    branch->expr = ParseTuple(/*with_condition=*/false);
    ExpectBlockEnd();
    branch->body = ParseUntil({"elif", "else", "endif"});
    if (SkipName("elif")) {
      if (chain.size() > kMaxExpressionDepth) FailHere("Too many elif branches");
      auto next = std::make_unique<Stmt>();
      next->position = current().position;
      Stmt* raw = next.get();
      branch->else_body.push_back(std::move(next));
      chain.push_back(raw);
      continue;
    }
    if (SkipName("else")) {
      ExpectBlockEnd();
      branch->else_body = ParseUntil({"endif"});
    }
    Next();
    ExpectBlockEnd();
    return;
  }
}

void Parser::ParseFor(Stmt* stmt) {
  stmt->kind = StmtKind::kFor;
  stmt->target = ParseTarget(/*allow_attribute=*/false, /*allow_tuple=*/true);
  if (!SkipName("in")) FailUnexpected("'in'");
  stmt->expr = ParseTuple(/*with_condition=*/false);
  if (SkipName("if")) stmt->condition = ParseExpression();
  if (AtName("recursive")) {
    throw ChatError(StatusCode::kIncompatible,
                    At("A recursive loop is not supported", current().position));
  }
  ExpectBlockEnd();
  stmt->body = ParseUntil({"endfor", "else"});
  if (SkipName("else")) {
    ExpectBlockEnd();
    stmt->else_body = ParseUntil({"endfor"});
  }
  Next();
}

void Parser::ParseSet(Stmt* stmt) {
  stmt->target = ParseTarget(/*allow_attribute=*/true, /*allow_tuple=*/true);
  if (SkipOperator("=")) {
    stmt->kind = StmtKind::kSet;
    stmt->expr = ParseTuple();
    return;
  }
  stmt->kind = StmtKind::kSetBlock;
  stmt->filter = ParseFilters(nullptr);
  ExpectBlockEnd();
  stmt->body = ParseUntil({"endset"});
  Next();
}

void Parser::ParseWith(Stmt* stmt) {
  stmt->kind = StmtKind::kWith;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->targets.empty()) ExpectOperator(",");
    stmt->targets.push_back(ParseTarget(/*allow_attribute=*/false, /*allow_tuple=*/true));
    ExpectOperator("=");
    stmt->defaults.push_back(ParseExpression());
  }
  ExpectBlockEnd();
  stmt->body = ParseUntil({"endwith"});
  Next();
}

void Parser::ParseMacro(Stmt* stmt) {
  stmt->kind = StmtKind::kMacro;
  stmt->text = ExpectName();
  ParseSignature(stmt);
  ParseMacroBody(stmt, "endmacro");
}

void Parser::ParseSignature(Stmt* stmt) {
  ExpectOperator("(");
  while (!AtOperator(")")) {
    if (!stmt->parameters.empty()) ExpectOperator(",");
    stmt->parameters.push_back(ExpectName());
    if (SkipOperator("=")) {
      stmt->defaults.push_back(ParseExpression());
    } else if (!stmt->defaults.empty()) {
      FailHere("A parameter without a default follows one with a default");
    }
  }
  Next();
}

void Parser::ParseMacroBody(Stmt* stmt, std::string_view end) {
  ExpectBlockEnd();
  macros_.push_back(stmt);
  stmt->body = ParseUntil({end});
  macros_.pop_back();
  Next();
}

/// What can be assigned to: a name, `name.attribute`, or a tuple of names.
ExprPtr Parser::ParseTarget(bool allow_attribute, bool allow_tuple, bool allow_parentheses) {
  const Position position = current().position;
  std::vector<ExprPtr> targets;
  bool comma = false;
  while (true) {
    if (allow_parentheses && SkipOperator("(")) {
      targets.push_back(ParseTarget(false, true, false));
      ExpectOperator(")");
    } else {
      ExprPtr name = Make(ExprKind::kName, current().position);
      name->name = ExpectName();
      if (name->name == "true" || name->name == "false" || name->name == "none" ||
          name->name == "True" || name->name == "False" || name->name == "None") {
        FailHere("Cannot assign to '" + name->name + "'");
      }
      if (allow_attribute && targets.empty() && SkipOperator(".")) {
        ExprPtr attribute = Make(ExprKind::kGetAttr, position);
        attribute->name = ExpectName();
        Adopt(attribute.get(), std::move(name));
        return attribute;
      }
      targets.push_back(std::move(name));
    }
    if (!allow_tuple || !SkipOperator(",")) break;
    comma = true;
    if (AtName("in") || AtOperator("=")) break;
  }
  if (!comma) return std::move(targets[0]);
  ExprPtr tuple = Make(ExprKind::kTuple, position);
  for (ExprPtr& target : targets) Adopt(tuple.get(), std::move(target));
  return tuple;
}

Block ParseTemplate(std::string_view source) { return Parser(Tokenize(source)).ParseAll(); }

}  // namespace slipstream::text::chat
