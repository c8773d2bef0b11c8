// What filters, tests, methods and functions get from the rendering that calls them, and how they
// read their arguments.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/value.h"

namespace slipstream::text::chat {

/// One rendering: its budget, its clock, and the namespaces that it made.
struct Runtime {
  Budget budget;
  std::function<std::tm()> clock;
  std::vector<std::unique_ptr<Namespace>> namespaces;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// Arguments by parameter, as Python binds them. Errors: too many, unknown, repeated, missing.
class Bound {
 public:
  /// The first `required` parameters must be given.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t required = 0);

  bool Has(size_t index) const { return values_[index].has_value(); }
  /// Undefined when absent.
  Value Get(size_t index) const { return values_[index].value_or(Value()); }
  Value Get(size_t index, Value otherwise) const {
    return values_[index].value_or(std::move(otherwise));
  }
  /// Of a type; the default when absent. Errors: another type.
  std::string Text(size_t index, std::string otherwise) const;
  int64_t Int(size_t index, int64_t otherwise) const;
  bool Flag(size_t index, bool otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

/// environment.getattr: an attribute of the type first, then an item.
Value GetAttribute(const Value& object, const std::string& name, Runtime* runtime);
/// environment.getitem: an item first, then an attribute.
Value GetItem(const Value& object, const Value& key, Runtime* runtime);
/// object[start:stop:step]; none where a bound is absent.
Value Slice(const Value& object, const Value& start, const Value& stop, const Value& step,
            Runtime* runtime);
/// "a.0.b" from filters: attributes and positions one after the other.
Value GetPath(const Value& object, const Value& path, Runtime* runtime);

/// Calls a method of a value; `method` came from GetAttribute.
Value CallMethod(const Method& method, const Arguments& arguments, Runtime* runtime);
/// Whether `method` is one that CallMethod knows.
bool HasMethod(const Value& object, std::string_view name);

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments,
                  Runtime* runtime);
/// The filters over sequences; false when `name` is none of them.
bool ApplySequenceFilter(const std::string& name, const Value& value, const Arguments& arguments,
                         Runtime* runtime, Value* result);
bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments,
               Runtime* runtime);

bool IsFunction(std::string_view name);
Value CallFunction(const std::string& name, const Arguments& arguments, Runtime* runtime);
/// Python's strftime in the C locale.
std::string FormatTime(const std::string& layout, const std::tm& time);

}  // namespace slipstream::text::chat
