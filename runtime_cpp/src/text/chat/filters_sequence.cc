// Filters over sequences and dicts.
#include <algorithm>
#include <string>

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/runtime.h"
#include "text/chat/strings.h"

namespace slipstream::text::chat {
namespace {

Value FoldCase(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.string()) return value;
  return Value::String(Lower(value.text()));
}

/// The arguments from `first` on.
Arguments Rest(const Arguments& arguments, size_t first) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(first),
                         arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

std::string NameArgument(const std::string& filter, const Value& value) {
  if (!value.string()) Fail(filter + " needs the name of a filter or a test");
  return value.text();
}

Value Map(const std::vector<Value>& items, const Arguments& arguments, Runtime* runtime) {
  std::vector<Value> out;
  out.reserve(items.size());
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : items) {
      Value value = GetPath(item, bound.Get(0), runtime);
      if (value.undefined() && bound.Has(1) && !bound.Get(1).none()) value = bound.Get(1);
      out.push_back(std::move(value));
    }
  } else {
    const std::string name = NameArgument("map", arguments.positional[0]);
    const Arguments rest = Rest(arguments, 1);
    for (const Value& item : items) out.push_back(ApplyFilter(name, item, rest, runtime));
  }
  return Value::Of(Kind::kIterator, std::move(out));
}

/// select, reject, selectattr and rejectattr.
Value Select(const std::string& name, const std::vector<Value>& items, const Arguments& arguments,
             Runtime* runtime) {
  const bool keep = name.starts_with("select");
  const bool attribute = name.ends_with("attr");
  const size_t skipped = attribute ? 1 : 0;
  if (arguments.positional.size() < skipped) Fail(name + " needs the name of an attribute");
  const bool has_test = arguments.positional.size() > skipped;
  const std::string test = has_test ? NameArgument(name, arguments.positional[skipped]) : "";
  const Arguments rest = has_test ? Rest(arguments, skipped + 1) : Arguments();
  std::vector<Value> out;
  for (const Value& item : items) {
    const Value value = attribute ? GetPath(item, arguments.positional[0], runtime) : item;
    const bool holds = has_test ? ApplyTest(test, value, rest, runtime) : Truthy(value);
    if (holds == keep) out.push_back(item);
  }
  return Value::Of(Kind::kIterator, std::move(out));
}

Value Join(const std::vector<Value>& items, const Arguments& arguments, Runtime* runtime) {
  const Bound bound("join", arguments, {"d", "attribute"});
  Budget* budget = &runtime->budget;
  const std::string separator = bound.Has(0) ? ToText(bound.Get(0), budget) : "";
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Value& item = items[i];
    budget->ChargeBytes(separator.size());
    if (i > 0) out += separator;
    out += ToText(bound.Has(1) ? GetPath(item, bound.Get(1), runtime) : item, budget);
    if (out.size() > kMaxStringBytes) budget->ChargeBytes(out.size());
  }
  return Value::String(std::move(out));
}

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

void SortKeyed(Keyed* keyed, bool reverse, Budget* budget) {
  budget->ChargeSteps(keyed->size());
  std::stable_sort(keyed->begin(), keyed->end(), [&](const auto& a, const auto& b) {
    const int order = Order(a.first, b.first, budget);
    return reverse ? order > 0 : order < 0;
  });
}

std::vector<Value> ItemsOf(Keyed keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return items;
}

Value Sort(const std::vector<Value>& items, const Arguments& arguments, Runtime* runtime) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  if (bound.Get(2).string() && bound.Get(2).text().find(',') != std::string::npos) {
    FailUnsupported("Sorting by several attributes");
  }
  Keyed keyed;
  for (const Value& item : items) {
    keyed.emplace_back(FoldCase(GetPath(item, bound.Get(2), runtime), bound.Flag(1, false)), item);
  }
  SortKeyed(&keyed, bound.Flag(0, false), &runtime->budget);
  return Value::List(ItemsOf(std::move(keyed)));
}

Value DictSort(const Value& value, const Arguments& arguments, Runtime* runtime) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  RequireDefined(value);
  if (!value.dict()) Fail(std::string("dictsort needs a dict, not ") + TypeName(value));
  const std::string by = bound.Text(1, "key");
  if (by != "key" && by != "value") Fail("You can only sort by either \"key\" or \"value\"");
  Keyed keyed;
  for (const auto& [key, item] : value.as_dict().entries) {
    keyed.emplace_back(FoldCase(by == "key" ? key : item, bound.Flag(0, false)),
                       Value::Tuple({key, item}));
  }
  SortKeyed(&keyed, bound.Flag(2, false), &runtime->budget);
  return Value::List(ItemsOf(std::move(keyed)));
}

Value Unique(const std::vector<Value>& items, const Arguments& arguments, Runtime* runtime) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : items) {
    const Value key = FoldCase(GetPath(item, bound.Get(1), runtime), bound.Flag(0, false));
    runtime->budget.ChargeSteps(key.string() ? 1 : seen.entries.size() + 1);
    if (seen.Find(key) != nullptr) continue;
    seen.Set(key, Value::None());
    out.push_back(item);
  }
  return Value::Of(Kind::kIterator, std::move(out));
}

/// min and max: the first of equals.
Value Extreme(const std::string& name, const std::vector<Value>& items, const Arguments& arguments,
              Runtime* runtime) {
  const Bound bound(name, arguments, {"case_sensitive", "attribute"});
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    const Value key = FoldCase(GetPath(items[i], bound.Get(1), runtime), bound.Flag(0, false));
    const int order = i == 0 ? 0 : Order(key, best_key, &runtime->budget);
    if (i == 0 || (name == "min" ? order < 0 : order > 0)) {
      best = i;
      best_key = key;
    }
  }
  return items[best];
}

Value Sum(const std::vector<Value>& items, const Arguments& arguments, Runtime* runtime) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value total = bound.Get(1, Value::Int(0));
  if (total.string()) Fail("sum() can't sum strings");
  for (const Value& item : items) {
    // Newer Pythons add floats with compensation.
    if (total.Is(Kind::kFloat) || item.Is(Kind::kFloat)) FailUnsupported("The sum of floats");
    total =
        Arithmetic(Operator::kAdd, total, GetPath(item, bound.Get(0), runtime), &runtime->budget);
  }
  return total;
}

Value Reverse(const Value& value, Runtime* runtime) {
  // An undefined value is an empty sequence here, as Python's reversed() sees it.
  std::vector<Value> items = Iterate(value, &runtime->budget);
  std::reverse(items.begin(), items.end());
  if (!value.string()) return Value::Of(Kind::kIterator, std::move(items));
  std::string out;
  for (const Value& item : items) out += item.text();
  return Value::String(std::move(out));
}

Value FirstOrLast(const std::string& name, const Value& value, Runtime* runtime) {
  if (name == "last" && value.Is(Kind::kIterator)) {
    Fail("'generator' object is not reversible");
  }
  if (name == "last") RequireDefined(value);
  if (name == "first" && value.Is(Kind::kIterator)) {
    Sequence& sequence = value.iterator();
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
    return Value::Undefined("No first item, sequence was empty.");
  }
  const std::vector<Value> items = Iterate(value, &runtime->budget);
  if (items.empty()) return Value::Undefined("No " + name + " item, sequence was empty.");
  return name == "first" ? items.front() : items.back();
}

Value Items(const Value& value, Runtime* runtime) {
  std::vector<Value> items;
  if (!value.undefined()) {
    if (!value.dict()) Fail("Can only get item pairs from a mapping.");
    runtime->budget.ChargeBytes(value.as_dict().entries.size() * sizeof(Value));
    for (const auto& [key, item] : value.as_dict().entries) {
      items.push_back(Value::Tuple({key, item}));
    }
  }
  return Value::Of(Kind::kIterator, std::move(items));
}

/// These make generators in jinja2, which fail when somebody walks them, if ever.
bool Lazy(const std::string& name) {
  static constexpr std::string_view kNames[] = {"map",        "select", "reject", "selectattr",
                                                "rejectattr", "unique", "items"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value ApplyLazy(const std::string& name, const Value& value, const Arguments& arguments,
                Runtime* runtime) {
  try {
    if (name == "items") return Items(value, runtime);
    if (name == "unique") return Unique(Iterate(value, &runtime->budget), arguments, runtime);
    // These take anything false, also none, for an empty sequence.
    const std::vector<Value> items =
        Truthy(value) ? Iterate(value, &runtime->budget) : std::vector<Value>();
    return name == "map" ? Map(items, arguments, runtime) : Select(name, items, arguments, runtime);
  } catch (const ChatError& error) {
    if (error.code() != StatusCode::kInvalidArgument) throw;
    // jinja2 may never come to this item.
    throw ChatError(StatusCode::kIncompatible, "In the filter '" + name + "': " + error.message());
  }
}

}  // namespace

bool ApplySequenceFilter(const std::string& name, const Value& value, const Arguments& arguments,
                         Runtime* runtime, Value* result) {
  const auto items = [&] { return Iterate(value, &runtime->budget); };
  if (name == "join") {
    *result = Join(items(), arguments, runtime);
  } else if (Lazy(name)) {
    *result = ApplyLazy(name, value, arguments, runtime);
  } else if (name == "sort") {
    *result = Sort(items(), arguments, runtime);
  } else if (name == "dictsort") {
    *result = DictSort(value, arguments, runtime);
  } else if (name == "min" || name == "max") {
    *result = Extreme(name, items(), arguments, runtime);
  } else if (name == "sum") {
    *result = Sum(items(), arguments, runtime);
  } else {
    static constexpr std::string_view kPlain[] = {"length", "count", "list",
                                                  "first",  "last",  "reverse"};
    if (std::find(std::begin(kPlain), std::end(kPlain), name) == std::end(kPlain)) return false;
    Bound(name, arguments, {});
    if (name == "length" || name == "count") {
      *result = Value::Int(Length(value));
    } else if (name == "list") {
      *result = Value::List(items());
    } else if (name == "reverse") {
      *result = Reverse(value, runtime);
    } else {
      *result = FirstOrLast(name, value, runtime);
    }
  }
  return true;
}

}  // namespace slipstream::text::chat
