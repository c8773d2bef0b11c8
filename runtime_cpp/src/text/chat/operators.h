// Python's operators on values.
#pragma once

#include "text/chat/ast.h"
#include "text/chat/value.h"

namespace slipstream::text::chat {

/// `a op b` for arithmetic. Integers beyond 64 bits are errors, as are types that Python refuses.
Value Arithmetic(Operator op, const Value& a, const Value& b, Budget* budget);

/// `a op b` for comparison and membership.
bool Compare(Operator op, const Value& a, const Value& b, Budget* budget);

/// Python's order: negative, zero, positive. Errors: types without an order between them.
int Order(const Value& a, const Value& b, Budget* budget);

/// -a and +a.
Value Negative(const Value& a);
Value Positive(const Value& a);

/// Throws what jinja2 throws when an undefined value is used.
void RequireDefined(const Value& value);

/// Python's `text % values`, in format.cc.
Value PercentFormat(const std::string& text, const Value& values, Budget* budget);

}  // namespace slipstream::text::chat
