#include "text/chat/json_input.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/excerpt.h"
#include "text/utf8.h"

namespace slipstream::text::chat {
namespace {

constexpr size_t kMaxDepth = 100;

/// Builds values from the events of the parser; keeps the order of keys.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) return TooLarge();
    return Add(Value::Int(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) return TooLarge();
    return Add(Value::Float(value));
  }
  bool string(string_t& value) override { return Add(Value::String(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return Open(true); }
  bool start_array(size_t) override { return Open(false); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Stop({StatusCode::kInvalidArgument,
                 "is not valid JSON at byte " + std::to_string(position) + "; correct it there"});
  }

  const Status& status() const { return status_; }
  Value Take() { return std::move(root_); }

 private:
  struct Container {
    std::shared_ptr<Dict> dict;  // null for an array
    std::vector<Value> items;
    std::string key;
  };

  bool Stop(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  bool TooLarge() {
    return Stop(
        {StatusCode::kIncompatible, "holds an integer beyond 64 bits, which is not supported"});
  }

  bool Open(bool object) {
    if (open_.size() == kMaxDepth) {
      return Stop({StatusCode::kLimitExceeded,
                   "is nested deeper than " + std::to_string(kMaxDepth) + " levels"});
    }
    open_.push_back({object ? std::make_shared<Dict>() : nullptr, {}, {}});
    return true;
  }

  bool Close() {
    Container container = std::move(open_.back());
    open_.pop_back();
    return Add(container.dict ? Value::Of(std::move(container.dict))
                              : Value::List(std::move(container.items)));
  }

  bool Add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Container& container = open_.back();
    if (!container.dict) {
      container.items.push_back(std::move(value));
      return true;
    }
    if (container.dict->Find(container.key) != nullptr) {
      return Stop({StatusCode::kInvalidArgument,
                   "repeats the key '" + core::Excerpt(container.key) + "'; give it once"});
    }
    container.dict->Set(std::move(container.key), std::move(value));
    return true;
  }

  std::vector<Container> open_;
  Value root_;
  Status status_;
};

}  // namespace

Result<Value> ReadJson(std::string_view json, std::string_view what) {
  if (const size_t invalid = FindInvalidUtf8(json); invalid != std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument,
                  "The JSON of " + std::string(what) + " is not UTF-8 at byte " +
                      std::to_string(invalid) + "; convert it first.");
  }
  Builder builder;
  const bool parsed = nlohmann::json::sax_parse(json, &builder);
  if (!builder.status().ok()) {
    return Status(builder.status().code(),
                  "The JSON of " + std::string(what) + " " + builder.status().message() + ".");
  }
  if (!parsed) {
    return Status(StatusCode::kInvalidArgument,
                  "The JSON of " + std::string(what) + " is not valid.");
  }
  return builder.Take();
}

}  // namespace slipstream::text::chat
