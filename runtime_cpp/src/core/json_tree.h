// A JSON value that can be destroyed when no memory is left.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

namespace slipstream::core {

/// The destructor of nlohmann::json allocates, and so ends the process when memory runs out, unless
/// its arrays and objects are empty: this one empties them first. Owns the root of a tree, whose
/// depth must be bounded. A const JsonTree serves wherever a const nlohmann::json& does.
class JsonTree : public nlohmann::json {
 public:
  JsonTree() = default;
  explicit JsonTree(nlohmann::json&& value) noexcept : nlohmann::json(std::move(value)) {}
  JsonTree(JsonTree&& other) noexcept : nlohmann::json(static_cast<nlohmann::json&&>(other)) {}
  JsonTree& operator=(JsonTree&& other) noexcept {
    swap(other);
    return *this;
  }
  JsonTree(const JsonTree&) = delete;
  ~JsonTree() { TakeApart(this); }

  /// Makes all containers below and including `value` empty, innermost first.
  static void TakeApart(nlohmann::json* value) noexcept {
    if (auto* array = value->get_ptr<array_t*>()) {
      for (nlohmann::json& element : *array) TakeApart(&element);
      array->clear();
    } else if (auto* object = value->get_ptr<object_t*>()) {
      for (auto& [key, element] : *object) TakeApart(&element);
      object->clear();
    }
  }
};

}  // namespace slipstream::core
