#include "text/regex_quantifier.h"

#include <algorithm>

namespace slipstream::text {
namespace {

constexpr uint32_t kMaxCount = 1000;

bool TakeNumber(RegexSource* source, uint32_t* value) {
  bool any = false;
  *value = 0;
  for (char digit = '0'; digit <= '9' && *value <= kMaxCount;) {
    if (source->Take(std::string_view(&digit, 1))) {
      *value = *value * 10 + static_cast<uint32_t>(digit - '0');
      any = true;
      digit = '0';
    } else {
      ++digit;
    }
  }
  return any && *value <= kMaxCount;
}

// Behind the '{'.
bool TakeBounds(RegexSource* source, Quantifier* quantifier) {
  const bool from_zero = source->At(",");
  quantifier->min = 0;
  if (!from_zero && !TakeNumber(source, &quantifier->min)) return false;
  quantifier->max = quantifier->min;
  if (source->Take(",")) {
    if (!from_zero && source->At("}")) {
      quantifier->max = kUnbounded;
    } else if (!TakeNumber(source, &quantifier->max)) {
      return false;
    }
  }
  return source->Take("}") && quantifier->max >= quantifier->min && quantifier->max > 0;
}

}  // namespace

Length operator*(Length length, const Quantifier& times) {
  const uint64_t min = std::min<uint64_t>(uint64_t{length.min} * times.min, kUnbounded);
  const bool bounded = length.max != kUnbounded && times.max != kUnbounded;
  const uint64_t max = bounded ? std::min<uint64_t>(uint64_t{length.max} * times.max, kUnbounded)
                               : uint64_t{kUnbounded};
  return {static_cast<uint32_t>(min), static_cast<uint32_t>(max)};
}

bool TakeQuantifier(RegexSource* source, Quantifier* quantifier) {
  if (source->Take("*")) {
    *quantifier = {0, kUnbounded};
  } else if (source->Take("+")) {
    *quantifier = {1, kUnbounded};
  } else if (source->Take("?")) {
    *quantifier = {0, 1};
  } else if (source->Take("{")) {
    if (!TakeBounds(source, quantifier)) source->Fail("a wrong {m,n} (at most 1000)");
    quantifier->braces = true;
  } else {
    return false;
  }
  // Braces are made lazy by a ? only if their bounds differ, and never possessive.
  const bool fixed = quantifier->braces && quantifier->min == quantifier->max;
  if (!fixed && source->Take("?")) quantifier->mode = Quantifier::kLazy;
  if (!quantifier->braces && quantifier->mode == Quantifier::kGreedy && source->Take("+"))
    quantifier->mode = Quantifier::kPossessive;
  return true;
}

}  // namespace slipstream::text
