// Status and Result: how every call of the public API reports failure. A call that returns one of
// them does not throw. Those that return text itself (Tokenizer::Decode, StreamDecoder::Push, ...)
// throw std::bad_alloc when memory runs out, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "slipstream/export.h"

namespace slipstream {

/// Why a call failed. Stable values: they cross the Python and C borders.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,    ///< A value is wrong in itself (NaN temperature, id out of vocabulary).
  kLimitExceeded = 2,      ///< A value is valid, but beyond a limit of this engine or executor.
  kNotFound = 3,           ///< A file, request or tensor does not exist.
  kCorruptFile = 4,        ///< The engine file is damaged: cut, padded, a hash does not match.
  kIncompatible = 5,       ///< The file is sound, but this build or machine cannot run it.
  kIo = 6,                 ///< The operating system refused (message holds its text).
  kResourceExhausted = 7,  ///< Out of memory, of KV blocks, of queue places, of threads.
  kCancelled = 8,          ///< The caller cancelled the request or shut the executor down.
  kUnavailable = 9,        ///< The executor is draining or stopped.
  kInternal = 10,          ///< A defect of Slipstream; please report it.
};

/// Short stable name of a code, e.g. "INVALID_ARGUMENT".
SLIPSTREAM_API const char* StatusCodeName(StatusCode code);

/// A code and a message that says what is wrong, where, the limit, the value and the fix.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

/// A value or the Status that explains its absence. Check ok() first: `*` and `->` without a value
/// are a defect of the caller.
///
///     Result<Engine> engine = Engine::Load("model.engine");
///     if (!engine.ok()) return Fail(engine.status().message());
///     Use(*engine);
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The failure; Ok() when there is a value.
  Status status() const& { return ok() ? Status() : std::get<1>(state_); }
  Status status() && { return ok() ? Status() : std::get<1>(std::move(state_)); }

  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::move(std::get<0>(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace slipstream
