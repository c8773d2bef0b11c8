// How the interpreter of chat templates fails inside: an exception that ChatTemplate turns into a
// Status, and the budget that bounds what a hostile template can cost.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "core/excerpt.h"
#include "slipstream/status.h"

namespace slipstream::text::chat {

/// A place in the source; both count from 1, columns in bytes.
struct Position {
  int32_t line = 1;
  int32_t column = 1;
};

/// Never leaves the room.
class ChatError : public std::exception {
 public:
  /// A longer message is cut: templates write their own, and may quote a whole conversation.
  ChatError(StatusCode code, std::string_view message)
      : code_(code), message_(core::Excerpt(message, kLongestMessage)) {}
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  static constexpr size_t kLongestMessage = 400;
  StatusCode code_;
  std::string message_;
};

/// The template or the values are wrong: jinja2 fails as well.
[[noreturn]] inline void Fail(std::string_view message) {
  throw ChatError(StatusCode::kInvalidArgument, message);
}

/// jinja2 may know what to do, this interpreter does not.
[[noreturn]] inline void FailUnsupported(std::string what) {
  throw ChatError(StatusCode::kIncompatible, std::move(what) + " is not supported");
}

constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxAllocatedBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxSteps = 5'000'000;

/// What one rendering may still spend. Every operation charges before it works.
class Budget {
 public:
  void ChargeSteps(uint64_t steps) {
    if (steps > steps_) {
      throw ChatError(StatusCode::kLimitExceeded,
                      "The template takes more than " + std::to_string(kMaxSteps) + " steps");
    }
    steps_ -= steps;
  }

  /// For a string or a list about to be made.
  void ChargeBytes(uint64_t bytes) {
    if (bytes > kMaxStringBytes || bytes > bytes_) {
      throw ChatError(
          StatusCode::kLimitExceeded,
          "The template makes more than " +
              std::to_string((bytes > kMaxStringBytes ? kMaxStringBytes : kMaxAllocatedBytes) >>
                             20) +
              " MiB of text");
    }
    bytes_ -= bytes;
    ChargeSteps(bytes / 256);
  }

 private:
  uint64_t steps_ = kMaxSteps;
  uint64_t bytes_ = kMaxAllocatedBytes;
};

}  // namespace slipstream::text::chat
