#include "text/chat/value.h"

#include <algorithm>
#include <cmath>

#include "text/chat/strings.h"

namespace slipstream::text::chat {
namespace {

int32_t Nested(int32_t depth) {
  if (depth >= kMaxValueDepth) {
    throw ChatError(StatusCode::kLimitExceeded,
                    "A value is nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
  return depth + 1;
}

bool Hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      return false;
    case Kind::kTuple:
      return std::all_of(value.items().items.begin(), value.items().items.end(), Hashable);
    default:
      return true;
  }
}

/// An int against a float without rounding the int.
bool EqualNumbers(const Value& a, const Value& b) {
  if (a.integral() && b.integral()) return a.as_int() == b.as_int();
  if (a.Is(Kind::kFloat) && b.Is(Kind::kFloat)) return a.as_double() == b.as_double();
  const Value& integer = a.integral() ? a : b;
  const double real = (a.integral() ? b : a).as_double();
  return std::abs(real) < 0x1p63 && std::trunc(real) == real &&
         static_cast<int64_t>(real) == integer.as_int();
}

}  // namespace

Value Value::Undefined(std::string why) {
  Value value;
  value.object_ = std::make_shared<StringObject>(std::move(why));
  return value;
}

Value Value::Bool(bool boolean) {
  Value value(Kind::kBool);
  value.int_ = boolean;
  return value;
}

Value Value::Int(int64_t integer) {
  Value value(Kind::kInt);
  value.int_ = integer;
  return value;
}

Value Value::Float(double real) {
  Value value(Kind::kFloat);
  value.float_ = real;
  return value;
}

Value Value::String(std::string text) {
  Value value(Kind::kString);
  value.object_ = std::make_shared<StringObject>(std::move(text));
  return value;
}

Value Value::Markup(std::string text) {
  Value value = String(std::move(text));
  value.kind_ = Kind::kMarkup;
  return value;
}

Value Value::Function(std::string name) {
  Value value = String(std::move(name));
  value.kind_ = Kind::kFunction;
  return value;
}

Value Value::Of(Kind kind, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) {
    sequence->depth = std::max(sequence->depth, Nested(item.depth()));
  }
  sequence->items = std::move(items);
  Value value(kind);
  value.object_ = std::move(sequence);
  return value;
}

Value Value::Of(std::shared_ptr<Dict> dict) {
  Value value(Kind::kDict);
  value.object_ = std::move(dict);
  return value;
}

Value Value::Of(std::shared_ptr<Loop> loop) {
  for (const Value& item : loop->items) loop->depth = std::max(loop->depth, Nested(item.depth()));
  Value value(Kind::kLoop);
  value.object_ = std::move(loop);
  return value;
}

Value Value::Of(Namespace* space) {
  Value value(Kind::kNamespace);
  value.raw_ = space;
  return value;
}

Value Value::Of(const Macro* macro) {
  Value value(Kind::kMacro);
  value.raw_ = const_cast<Macro*>(macro);  // as_macro gives it back as const
  return value;
}

Value Value::Bound(Value self, std::string name) {
  auto method = std::make_shared<Method>();
  method->depth = Nested(self.depth());
  method->self = std::move(self);
  method->name = std::move(name);
  Value value(Kind::kMethod);
  value.object_ = std::move(method);
  return value;
}

const std::string& Value::text() const {
  static const std::string kEmpty;
  return object_ ? static_cast<const StringObject&>(*object_).text : kEmpty;
}

const Sequence& Value::items() const { return static_cast<const Sequence&>(*object_); }
Sequence& Value::iterator() const { return static_cast<Sequence&>(*object_); }
const Dict& Value::as_dict() const { return static_cast<const Dict&>(*object_); }
Loop& Value::as_loop() const { return static_cast<Loop&>(*object_); }
const Method& Value::as_method() const { return static_cast<const Method&>(*object_); }

size_t Dict::IndexOf(const Value& key) const {
  if (key.string()) {
    auto found = strings_.find(key.text());
    return found == strings_.end() ? entries.size() : found->second;
  }
  if (!Hashable(key)) Fail(std::string("unhashable type: '") + TypeName(key) + "'");
  Budget budget;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (Equals(entries[i].first, key, &budget)) return i;
  }
  return entries.size();
}

const Value* Dict::Find(const Value& key) const {
  const size_t index = IndexOf(key);
  return index < entries.size() ? &entries[index].second : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  auto found = strings_.find(std::string(key));
  return found == strings_.end() ? nullptr : &entries[found->second].second;
}

void Dict::Set(const Value& key, Value value) {
  depth = std::max({depth, Nested(key.depth()), Nested(value.depth())});
  const size_t index = IndexOf(key);
  if (index < entries.size()) {
    entries[index].second = std::move(value);
    return;
  }
  if (key.string()) strings_.emplace(key.text(), index);
  entries.emplace_back(key, std::move(value));
}

const char* TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kMarkup:
      return "Markup";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return "dict_view";
    case Kind::kIterator:
      return "generator";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kMethod:
      return "method";
    case Kind::kFunction:
      return "function";
  }
  return "object";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
    case Kind::kMarkup:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.items().items.empty();
    case Kind::kDict:
      return !value.as_dict().entries.empty();
    default:
      return true;
  }
}

bool Equals(const Value& a, const Value& b, Budget* budget) {
  budget->ChargeSteps(1);
  if (a.number() && b.number()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
    case Kind::kFunction:
      budget->ChargeSteps(std::min(a.text().size(), b.text().size()) / 256);
      return a.text() == b.text();
    case Kind::kMarkup:
      FailUnsupported("comparing escaped text");
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange: {
      const auto& left = a.items().items;
      const auto& right = b.items().items;
      return left.size() == right.size() &&
             std::equal(left.begin(), left.end(), right.begin(),
                        [&](const Value& x, const Value& y) { return Equals(x, y, budget); });
    }
    case Kind::kDict: {
      const Dict& left = a.as_dict();
      const Dict& right = b.as_dict();
      if (left.entries.size() != right.entries.size()) return false;
      for (const auto& [key, value] : left.entries) {
        const Value* other = right.Find(key);
        if (other == nullptr || !Equals(value, *other, budget)) return false;
      }
      return true;
    }
    case Kind::kView:
      FailUnsupported("comparing views of dicts");
    case Kind::kMethod:
      return a.as_method().name == b.as_method().name &&
             a.as_method().self.identity() == b.as_method().self.identity();
    default:
      return a.identity() == b.identity();
  }
}

std::vector<Value> Iterate(const Value& value, Budget* budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kString: {
      budget->ChargeBytes(value.text().size() * sizeof(Value));
      std::vector<Value> characters;
      for (std::string_view character : Characters(value.text())) {
        characters.push_back(Value::String(std::string(character)));
      }
      return characters;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      budget->ChargeBytes(value.items().items.size() * sizeof(Value));
      return value.items().items;
    case Kind::kIterator: {
      Sequence& sequence = value.iterator();
      budget->ChargeBytes(sequence.items.size() * sizeof(Value));
      std::vector<Value> rest(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next),
                              sequence.items.end());
      sequence.next = sequence.items.size();
      return rest;
    }
    case Kind::kDict: {
      const Dict& dict = value.as_dict();
      budget->ChargeBytes(dict.entries.size() * sizeof(Value));
      std::vector<Value> keys;
      keys.reserve(dict.entries.size());
      for (const auto& entry : dict.entries) keys.push_back(entry.first);
      return keys;
    }
    case Kind::kMarkup:
    case Kind::kLoop:
      FailUnsupported(std::string("walking over a ") + TypeName(value));
    default:
      Fail(std::string("'") + TypeName(value) + "' object is not iterable");
  }
}

int64_t Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CharacterCount(value.text());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return static_cast<int64_t>(value.items().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as_dict().entries.size());
    case Kind::kMarkup:
      FailUnsupported("the length of escaped text");
    case Kind::kLoop:
      return static_cast<int64_t>(value.as_loop().items.size());
    default:
      Fail(std::string("object of type '") + TypeName(value) + "' has no len()");
  }
}

}  // namespace slipstream::text::chat
