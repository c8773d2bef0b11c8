#include "core/json_util.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/excerpt.h"
#include "core/resource_exhausted.h"

namespace slipstream::core {
namespace {

using nlohmann::json;

/// Bytes of what the library says, which quotes what it read last.
constexpr size_t kReasonExcerpt = 160;

/// Builds the value while it is parsed; refuses what json::parse would accept silently.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(json(nullptr)); }
  bool boolean(bool value) override { return Add(json(value)); }
  bool number_integer(number_integer_t value) override { return Add(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Add(json(value)); }
  bool string(string_t& value) override { return Add(json(std::move(value))); }
  bool binary(binary_t&) override { return false; }  // Not produced by the text parser.

  bool start_object(std::size_t) override { return Open(json::object()); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [slot, inserted] = stack_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!inserted && !limits_.repeated_keys)
      return Fail("the key \"" + Excerpt(name) + "\" appears twice in one object");
    slot_ = &slot->second;
    JsonTree::TakeApart(slot_);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    offset_ = position;
    // The library's text starts with "[json.exception...] parse error at ...: ": keep what follows.
    std::string reason = error.what();
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason.erase(0, colon + 2);
    return Fail(Excerpt(reason, kReasonExcerpt));
  }

  JsonTree Take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }
  std::size_t offset() const { return offset_; }

 private:
  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  json* Place(json&& value) {
    if (stack_.empty()) {
      static_cast<json&>(root_) = std::move(value);
      return &root_;
    }
    if (stack_.back()->is_array()) {
      auto& array = stack_.back()->get_ref<json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Add(json&& value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json&& value) {
    if (static_cast<int32_t>(stack_.size()) >= limits_.max_depth) {
      return Fail("it is nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    // Pointers into the tree stay valid: a container grows only while it is the innermost one.
    stack_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    stack_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  JsonTree root_;
  std::vector<json*> stack_;
  json* slot_ = nullptr;
  std::string problem_;
  std::size_t offset_ = 0;
};

std::string TypeProblem(const json& value, const char* expected) {
  return std::string("must be ") + expected + ", but is " + value.type_name();
}

}  // namespace

Result<JsonTree> ParseJson(std::string_view text, std::string_view what, const JsonLimits& limits) {
  try {
    const std::string name(what);
    if (text.size() > limits.max_bytes) {
      return Status(StatusCode::kInvalidArgument, name + " has " + std::to_string(text.size()) +
                                                      " bytes; the limit is " +
                                                      std::to_string(limits.max_bytes) + ".");
    }
    // The library takes a zero byte for the end of the input and would ignore what follows.
    if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
      return Status(StatusCode::kInvalidArgument,
                    name + " is not valid JSON: byte " + std::to_string(zero) + " is zero.");
    }
    Builder builder(limits);
    try {
      if (json::sax_parse(text.begin(), text.end(), &builder)) return builder.Take();
    } catch (const json::exception& error) {
      return Status(StatusCode::kInvalidArgument,
                    name + " is not valid JSON: " + Excerpt(error.what(), kReasonExcerpt) + ".");
    }
    std::string where;
    if (builder.offset() != 0) where = " (byte " + std::to_string(builder.offset()) + ")";
    return Status(StatusCode::kInvalidArgument,
                  name + " is not valid JSON: " + builder.problem() + where + ".");
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("Out of memory while parsing ", what, ".");
  }
}

JsonReader::JsonReader(const json& value, std::string what, StatusCode code)
    : object_(&value), what_(std::move(what)), code_(code), shared_status_(&root_status_) {
  if (!value.is_object()) {
    root_status_ = Status(code_, what_ + " " + TypeProblem(value, "a JSON object") + ".");
    object_ = nullptr;
  }
}

JsonReader::JsonReader(const json* object, std::string path, const JsonReader& parent)
    : object_(object),
      what_(parent.what_),
      path_(std::move(path)),
      code_(parent.code_),
      shared_status_(parent.shared_status_) {}

void JsonReader::Fail(std::string_view key, std::string_view problem) {
  if (!ok()) return;
  *shared_status_ =
      Status(code_, what_ + ": " + path_ + std::string(key) + " " + std::string(problem) + ".");
}

bool JsonReader::Has(const char* key) const {
  return object_ != nullptr && object_->find(key) != object_->end();
}

bool JsonReader::IsNull(const char* key) const { return Has(key) && object_->at(key).is_null(); }

const json* JsonReader::Find(const char* key) {
  if (object_ == nullptr || !ok()) return nullptr;
  const auto found = object_->find(key);
  if (found == object_->end()) {
    Fail(key, "is missing");
    return nullptr;
  }
  return &*found;
}

int64_t JsonReader::CheckedInt(std::string_view key, const json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) {
    Fail(key, TypeProblem(value, "an integer"));
    return 0;
  }
  // Above the signed range get<int64_t> would wrap.
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = too_large ? 0 : value.get<int64_t>();
  if (too_large || number < min || number > max) {
    Fail(key, "is " + value.dump() + "; it must be between " + std::to_string(min) + " and " +
                  std::to_string(max));
    return 0;
  }
  return number;
}

int64_t JsonReader::Int(const char* key, int64_t min, int64_t max) {
  const json* value = Find(key);
  return value == nullptr ? 0 : CheckedInt(key, *value, min, max);
}

uint64_t JsonReader::UInt(const char* key, uint64_t max) {
  const uint64_t limit = std::min<uint64_t>(max, std::numeric_limits<int64_t>::max());
  return static_cast<uint64_t>(Int(key, 0, static_cast<int64_t>(limit)));
}

double JsonReader::Number(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return 0.0;
  if (value->is_number()) return value->get<double>();
  Fail(key, TypeProblem(*value, "a number"));
  return 0.0;
}

bool JsonReader::Bool(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, TypeProblem(*value, "true or false"));
  return false;
}

std::string JsonReader::String(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get_ref<const std::string&>();
  Fail(key, TypeProblem(*value, "a string"));
  return {};
}

const json* JsonReader::Array(const char* key) {
  const json* value = Find(key);
  if (value == nullptr || value->is_array()) return value;
  Fail(key, TypeProblem(*value, "an array"));
  return nullptr;
}

std::vector<std::string> JsonReader::Strings(const char* key) {
  std::vector<std::string> strings;
  const json* array = Array(key);
  if (array == nullptr) return strings;
  for (const json& value : *array) {
    if (!value.is_string()) {
      Fail(key, TypeProblem(value, "an array of strings") + " at [" +
                    std::to_string(strings.size()) + "]");
      return {};
    }
    strings.push_back(value.get_ref<const std::string&>());
  }
  return strings;
}

std::vector<int64_t> JsonReader::Ints(const char* key, int64_t min, int64_t max) {
  std::vector<int64_t> numbers;
  const json* array = Array(key);
  if (array == nullptr) return numbers;
  for (const json& value : *array) {
    const std::string element = std::string(key) + "[" + std::to_string(numbers.size()) + "]";
    numbers.push_back(CheckedInt(element, value, min, max));
    if (!ok()) return {};
  }
  return numbers;
}

JsonReader JsonReader::Object(const char* key) {
  const json* value = Find(key);
  if (value != nullptr && !value->is_object()) {
    Fail(key, TypeProblem(*value, "an object"));
    value = nullptr;
  }
  return JsonReader(value, path_ + key + ".", *this);
}

JsonReader JsonReader::Element(const char* key, const json& value, size_t index) {
  const std::string name = std::string(key) + "[" + std::to_string(index) + "]";
  if (!value.is_object()) Fail(name, TypeProblem(value, "an object"));
  return JsonReader(value.is_object() ? &value : nullptr, path_ + name + ".", *this);
}

const json& JsonReader::Value(const char* key) {
  static const json null;
  const json* value = Find(key);
  return value == nullptr ? null : *value;
}

}  // namespace slipstream::core
