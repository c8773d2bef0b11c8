// The values of a running template: Python's, as far as templates see them. Immutable except for
// namespaces and the cursor of an iterator, so values share storage freely.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/chat/error.h"

namespace slipstream::text::chat {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kMarkup,  ///< What `escape` and `safe` make: it can be printed, and nothing else.
  kList,
  kTuple,
  kRange,
  kView,      ///< dict.items() and its like: it has a length and no positions.
  kIterator,  ///< What `map`, `select` and `items` make: it can be walked once.
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kMethod,    ///< A method with the value it belongs to.
  kFunction,  ///< A global function.
};

/// Nesting of values, so that walking and freeing them cannot overflow the stack.
constexpr int32_t kMaxValueDepth = 200;

struct Object {
  virtual ~Object() = default;
  int32_t depth = 1;
};

class Value;
struct StringObject;
struct Sequence;
struct Dict;
struct Namespace;
struct Loop;
struct Macro;
struct Method;

class Value {
 public:
  Value() = default;  ///< Undefined without a name.
  static Value Undefined(std::string why);
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value String(std::string text);
  static Value Markup(std::string text);
  static Value List(std::vector<Value> items) { return Of(Kind::kList, std::move(items)); }
  static Value Tuple(std::vector<Value> items) { return Of(Kind::kTuple, std::move(items)); }
  /// Any of the kinds that hold a Sequence. Errors: nested deeper than kMaxValueDepth.
  static Value Of(Kind kind, std::vector<Value> items);
  static Value Of(std::shared_ptr<Dict> dict);
  static Value Of(std::shared_ptr<Loop> loop);
  /// Namespaces and macros belong to the rendering, which outlives its values.
  static Value Of(Namespace* space);
  static Value Of(const Macro* macro);
  static Value Bound(Value self, std::string name);
  static Value Function(std::string name);

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool undefined() const { return kind_ == Kind::kUndefined; }
  bool none() const { return kind_ == Kind::kNone; }
  /// int, or bool, which is an int in Python.
  bool integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool number() const { return integral() || kind_ == Kind::kFloat; }
  bool string() const { return kind_ == Kind::kString; }
  bool dict() const { return kind_ == Kind::kDict; }
  /// list, tuple or range.
  bool indexable() const {
    return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kRange;
  }
  bool sequence() const { return indexable() || kind_ == Kind::kView || kind_ == Kind::kIterator; }

  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_double() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  /// Text of a string, markup, function name, or why a value is undefined.
  const std::string& text() const;
  const Sequence& items() const;
  Sequence& iterator() const;
  const Dict& as_dict() const;
  Namespace& as_namespace() const { return *static_cast<Namespace*>(raw_); }
  Loop& as_loop() const;
  const Macro& as_macro() const { return *static_cast<const Macro*>(raw_); }
  const Method& as_method() const;
  const void* identity() const { return raw_ != nullptr ? raw_ : object_.get(); }
  int32_t depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t int_ = 0;
    double float_;
  };
  void* raw_ = nullptr;
  std::shared_ptr<Object> object_;
};

struct StringObject : Object {
  explicit StringObject(std::string value) : text(std::move(value)) {}
  std::string text;
};

struct Sequence : Object {
  std::vector<Value> items;
  size_t next = 0;  ///< The cursor of an iterator.
};

struct Method : Object {
  Value self;
  std::string name;
};

/// Insertion-ordered, as Python's.
struct Dict : Object {
  std::vector<std::pair<Value, Value>> entries;

  /// nullptr when absent. Keys that Python cannot hash are errors.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(const Value& key, Value value);
  void Set(std::string key, Value value) { Set(Value::String(std::move(key)), std::move(value)); }

 private:
  size_t IndexOf(const Value& key) const;
  std::unordered_map<std::string, size_t> strings_;  // positions of the string keys
};

struct Namespace {
  Dict fields;
};

/// The `loop` variable.
struct Loop : Object {
  std::vector<Value> items;
  size_t index = 0;
  int32_t loop_depth = 0;
  std::vector<Value> last_changed;
  bool changed_called = false;
};

/// Python's name of the type, for messages.
const char* TypeName(const Value& value);

/// Python's bool(value).
bool Truthy(const Value& value);

/// Python's `==`. Charges for what it walks over.
bool Equals(const Value& a, const Value& b, Budget* budget);

/// The items of anything that can be walked (text by character, dicts by key). An iterator is used
/// up. Errors: not iterable.
std::vector<Value> Iterate(const Value& value, Budget* budget);

/// Python's len(). Errors: the value has none.
int64_t Length(const Value& value);

}  // namespace slipstream::text::chat
