// The global functions: range, dict, namespace, raise_exception, strftime_now.
#include <algorithm>
#include <array>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/runtime.h"

namespace slipstream::text::chat {
namespace {

constexpr std::array<std::string_view, 8> kFunctions = {
    "range", "dict", "namespace", "raise_exception", "strftime_now", "lipsum", "cycler", "joiner"};
constexpr int64_t kMaxRange = 100'000;  // the sandbox's own

Value Range(const Arguments& arguments, Runtime* runtime) {
  if (!arguments.keywords.empty()) Fail("range() takes no keyword arguments");
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  int64_t start = bound.Int(0, 0);
  int64_t stop = bound.Int(1, 0);
  const int64_t step = bound.Int(2, 1);
  if (!bound.Has(1)) std::swap(start, stop);
  if (step == 0) Fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      Fail("Range too big. The sandbox blocks ranges larger than " + std::to_string(kMaxRange));
    }
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  runtime->budget.ChargeBytes(items.size() * sizeof(Value));
  return Value::Of(Kind::kRange, std::move(items));
}

/// dict() and namespace() take a dict or pairs, and keywords.
void Fill(const std::string& name, const Arguments& arguments, Runtime* runtime, Dict* dict) {
  if (arguments.positional.size() > 1) Fail(name + "() takes at most one positional argument");
  for (const Value& source : arguments.positional) {
    if (source.dict()) {
      runtime->budget.ChargeBytes(source.as_dict().entries.size() * 2 * sizeof(Value));
      for (const auto& [key, value] : source.as_dict().entries) dict->Set(key, value);
      continue;
    }
    RequireDefined(source);
    for (const Value& pair : Iterate(source, &runtime->budget)) {
      const std::vector<Value> parts = Iterate(pair, &runtime->budget);
      if (parts.size() != 2) Fail(name + "() needs pairs of a key and a value");
      dict->Set(parts[0], parts[1]);
    }
  }
  for (const auto& [key, value] : arguments.keywords) dict->Set(key, value);
}

}  // namespace

bool IsFunction(std::string_view name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

Value CallFunction(const std::string& name, const Arguments& arguments, Runtime* runtime) {
  if (name == "range") return Range(arguments, runtime);
  if (name == "dict") {
    auto dict = std::make_shared<Dict>();
    Fill(name, arguments, runtime, dict.get());
    return Value::Of(std::move(dict));
  }
  if (name == "namespace") {
    auto space = std::make_unique<Namespace>();
    Fill(name, arguments, runtime, &space->fields);
    for (const auto& entry : space->fields.entries) {
      if (entry.first.string() && entry.first.text().starts_with("_")) {
        Fail("A namespace cannot hold the attribute '" + entry.first.text() + "'");
      }
    }
    runtime->budget.ChargeBytes(sizeof(Namespace));
    runtime->namespaces.push_back(std::move(space));
    return Value::Of(runtime->namespaces.back().get());
  }
  if (name == "raise_exception") {
    const Bound bound(name, arguments, {"message"}, 1);
    Fail(ToText(bound.Get(0), &runtime->budget));
  }
  if (name == "strftime_now") {
    const Bound bound(name, arguments, {"format"}, 1);
    return Value::String(FormatTime(bound.Text(0, ""), runtime->clock()));
  }
  FailUnsupported("The function '" + name + "'");
}

}  // namespace slipstream::text::chat
