#include <algorithm>

#include "text/chat/operators.h"
#include "text/chat/runtime.h"

namespace slipstream::text::chat {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function), names_(parameters), values_(parameters.size()) {
  const std::string name(function);
  if (arguments.positional.size() > names_.size()) {
    Fail(name + "() takes at most " + std::to_string(names_.size()) + " arguments (" +
         std::to_string(arguments.positional.size()) + " given)");
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [keyword, value] : arguments.keywords) {
    const auto found = std::find(names_.begin(), names_.end(), keyword);
    if (found == names_.end()) {
      Fail(name + "() got an unexpected keyword argument '" + keyword + "'");
    }
    auto& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot) Fail(name + "() got multiple values for argument '" + keyword + "'");
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) {
      Fail(name + "() missing the argument '" + std::string(names_[i]) + "'");
    }
  }
}

std::string Bound::Text(size_t index, std::string otherwise) const {
  if (!Has(index)) return otherwise;
  const Value& value = *values_[index];
  if (value.string()) return value.text();
  RequireDefined(value);
  if (value.Is(Kind::kMarkup)) FailUnsupported("An argument that is escaped text");
  Fail(std::string(function_) + "(): '" + std::string(names_[index]) + "' must be str, not " +
       TypeName(value));
}

int64_t Bound::Int(size_t index, int64_t otherwise) const {
  if (!Has(index)) return otherwise;
  const Value& value = *values_[index];
  if (value.integral()) return value.as_int();
  RequireDefined(value);
  Fail(std::string(function_) + "(): '" + std::string(names_[index]) + "' must be int, not " +
       TypeName(value));
}

bool Bound::Flag(size_t index, bool otherwise) const {
  return Has(index) ? Truthy(*values_[index]) : otherwise;
}

}  // namespace slipstream::text::chat
