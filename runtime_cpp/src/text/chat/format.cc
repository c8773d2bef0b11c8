// Python's `text % values` for what templates use: %s %r %d %i %x %X %o %f %F %% with flags, width
// and precision.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/strings.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

constexpr int64_t kMaxWidth = 10'000;

struct Directive {
  bool left = false, plus = false, space = false, zero = false;
  int64_t width = 0;
  int64_t precision = -1;
  char kind = '\0';
};

std::string FirstCharacters(const std::string& text, int64_t count) {
  std::string out;
  for (std::string_view character : Characters(text)) {
    if (count-- <= 0) break;
    out += character;
  }
  return out;
}

std::string Number(const Directive& directive, const Value& value) {
  RequireDefined(value);
  const char kind = directive.kind;
  const bool real = kind == 'f' || kind == 'F';
  if (!value.number() || (!real && value.Is(Kind::kFloat) && kind != 'd' && kind != 'i')) {
    Fail(std::string("%") + kind + " format: a number is required, not " + TypeName(value));
  }
  std::string digits;
  bool negative = false;
  if (real) {
    const double number = value.as_double();
    negative = std::signbit(number) && !std::isnan(number);
    char buffer[512];
    const int precision = static_cast<int>(directive.precision < 0 ? 6 : directive.precision);
    if (precision > 100) FailUnsupported("A precision beyond 100 digits");
    digits.assign(buffer, static_cast<size_t>(std::snprintf(buffer, sizeof(buffer), "%.*f",
                                                            precision, std::abs(number))));
  } else {
    if (value.Is(Kind::kFloat) && !(std::abs(value.as_double()) < 0x1p63)) {
      FailUnsupported("An integer beyond 64 bits");
    }
    const int64_t number =
        value.Is(Kind::kFloat) ? static_cast<int64_t>(value.as_double()) : value.as_int();
    negative = number < 0;
    const uint64_t magnitude =
        negative ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    char buffer[32];
    const char* layout = kind == 'x' ? "%lx" : kind == 'X' ? "%lX" : kind == 'o' ? "%lo" : "%lu";
    digits.assign(buffer,
                  static_cast<size_t>(std::snprintf(buffer, sizeof(buffer), layout, magnitude)));
    if (static_cast<int64_t>(digits.size()) < directive.precision) {
      digits.insert(0, static_cast<size_t>(directive.precision) - digits.size(), '0');
    }
  }
  const std::string sign = negative ? "-" : directive.plus ? "+" : directive.space ? " " : "";
  if (directive.zero && !directive.left) {
    const int64_t size = static_cast<int64_t>(digits.size() + sign.size());
    if (size < directive.width) digits.insert(0, static_cast<size_t>(directive.width - size), '0');
  }
  return sign + digits;
}

class Formatter {
 public:
  Formatter(const std::string& text, const Value& values, Budget* budget)
      : text_(text), values_(values), budget_(budget) {}

  Value Run() {
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out_.append(text_, at_, percent - at_);
      at_ = percent;
      if (at_ < text_.size()) Convert();
      if (out_.size() > kMaxStringBytes) budget_->ChargeBytes(out_.size());
    }
    const bool tuple = values_.Is(Kind::kTuple);
    const size_t count = tuple ? values_.items().items.size() : 1;
    const bool may_be_left = values_.dict() || values_.Is(Kind::kList) || values_.undefined();
    if (used_ < count && (tuple || !may_be_left)) {
      Fail("not all arguments converted during string formatting");
    }
    if (used_ < count && values_.undefined()) FailUnsupported("Formatting an undefined value");
    budget_->ChargeBytes(out_.size());
    return Value::String(std::move(out_));
  }

 private:
  char Peek() const {
    if (at_ >= text_.size()) Fail("incomplete format");
    return text_[at_];
  }

  Value Take() {
    if (values_.Is(Kind::kTuple)) {
      const auto& items = values_.items().items;
      if (used_ >= items.size()) Fail("not enough arguments for format string");
      return items[used_++];
    }
    if (used_++ > 0) Fail("not enough arguments for format string");
    return values_;
  }

  int64_t ReadNumber() {
    if (Peek() == '*') FailUnsupported("The width '*'");
    int64_t number = 0;
    for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
      number = number * 10 + (Peek() - '0');
      if (number > kMaxWidth) FailUnsupported("A width beyond 10000");
    }
    return number;
  }

  void Convert() {
    ++at_;
    Directive directive;
    if (Peek() == '(') FailUnsupported("Formatting with named values");
    for (;; ++at_) {
      const char c = Peek();
      if (c == '#') FailUnsupported("The format flag '#'");
      if (c == '-')
        directive.left = true;
      else if (c == '+')
        directive.plus = true;
      else if (c == ' ')
        directive.space = true;
      else if (c == '0')
        directive.zero = true;
      else
        break;
    }
    directive.width = ReadNumber();
    if (Peek() == '.') {
      ++at_;
      directive.precision = ReadNumber();
    }
    directive.kind = Peek();
    ++at_;
    std::string piece;
    switch (directive.kind) {
      case '%':
        piece = "%";
        out_ += piece;
        return;
      case 's':
      case 'r': {
        const Value value = Take();
        piece = directive.kind == 's' ? ToText(value, budget_) : Repr(value, budget_);
        if (directive.precision >= 0) piece = FirstCharacters(piece, directive.precision);
        break;
      }
      case 'd':
      case 'i':
      case 'x':
      case 'X':
      case 'o':
      case 'f':
      case 'F':
        piece = Number(directive, Take());
        break;
      default:
        FailUnsupported(std::string("The format %") + directive.kind);
    }
    const int64_t missing = directive.width - CharacterCount(piece);
    const std::string padding(static_cast<size_t>(std::max<int64_t>(missing, 0)), ' ');
    out_ += directive.left ? piece + padding : padding + piece;
  }

  const std::string& text_;
  const Value& values_;
  Budget* budget_;
  size_t at_ = 0;
  size_t used_ = 0;
  std::string out_;
};

}  // namespace

Value PercentFormat(const std::string& text, const Value& values, Budget* budget) {
  return Formatter(text, values, budget).Run();
}

}  // namespace slipstream::text::chat
