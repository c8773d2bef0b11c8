// JSON from files that are not trusted: bounded in size and depth, no duplicate keys, no
// exceptions.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_tree.h"
#include "slipstream/status.h"

namespace slipstream::core {

struct JsonLimits {
  uint64_t max_bytes = uint64_t{64} << 20;
  int32_t max_depth = 64;      ///< Nested arrays and objects.
  bool repeated_keys = false;  ///< Of equal keys in one object the last counts; else an error.
};

/// Parses one JSON value that fills `text` (white space around it is allowed). `what` names it in
/// messages ("the manifest"). Errors: kInvalidArgument with the byte offset (syntax, duplicate key,
/// depth, size, number out of range, invalid UTF-8), kResourceExhausted (out of memory).
Result<JsonTree> ParseJson(std::string_view text, std::string_view what,
                           const JsonLimits& limits = {});

/// Reads typed fields of a JSON object and keeps the first error, so that a caller reads everything
/// and checks once. A getter returns a zero value after an error. Unknown keys are left alone: a
/// higher minor version may add some.
///
///     JsonReader reader(json, "the manifest");
///     JsonReader limits = reader.Object("limits");
///     int64_t seq = limits.Int("max_seq_len", 1, 1 << 30);
///     if (!reader.status().ok()) return reader.status();   // "the manifest: limits.max_seq_len is
///     ..."
///
/// Children share the error of the reader that they came from, which must outlive them. Borrows the
/// JSON value.
class JsonReader {
 public:
  /// The code of every error; callers of file formats use kCorruptFile.
  JsonReader(const nlohmann::json& value, std::string what,
             StatusCode code = StatusCode::kInvalidArgument);
  JsonReader(JsonReader&&) = delete;  // Children point to root_status_.
  JsonReader& operator=(const JsonReader&) = delete;

  const Status& status() const { return *shared_status_; }
  bool ok() const { return shared_status_->ok(); }

  bool Has(const char* key) const;
  /// Present and null.
  bool IsNull(const char* key) const;

  int64_t Int(const char* key, int64_t min, int64_t max);
  uint64_t UInt(const char* key, uint64_t max = std::numeric_limits<int64_t>::max());
  double Number(const char* key);
  bool Bool(const char* key);
  std::string String(const char* key);
  std::vector<std::string> Strings(const char* key);
  std::vector<int64_t> Ints(const char* key, int64_t min, int64_t max);
  JsonReader Object(const char* key);
  /// Calls each(reader of the element) for every element, all of which must be objects; stops after
  /// an error.
  template <class F>
  void Objects(const char* key, F&& each) {
    const nlohmann::json* array = Array(key);
    for (size_t i = 0; array != nullptr && i < array->size() && ok(); ++i) {
      JsonReader element = Element(key, (*array)[i], i);
      if (ok()) each(element);
    }
  }
  /// The value itself, of any type.
  const nlohmann::json& Value(const char* key);

  /// Records an error about `key` ("the manifest: limits.max_seq_len " + problem); the first error
  /// stays.
  void Fail(std::string_view key, std::string_view problem);

 private:
  JsonReader(const nlohmann::json* object, std::string path, const JsonReader& parent);
  const nlohmann::json* Find(const char* key);
  const nlohmann::json* Array(const char* key);
  JsonReader Element(const char* key, const nlohmann::json& value, size_t index);
  int64_t CheckedInt(std::string_view key, const nlohmann::json& value, int64_t min, int64_t max);

  const nlohmann::json* object_;  // Null after an error.
  std::string what_;
  std::string path_;  // "limits." or "tensors[3]."
  StatusCode code_;
  Status root_status_;
  Status* shared_status_;
};

}  // namespace slipstream::core
