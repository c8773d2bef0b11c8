// Bounds the recursion of the interpreter, for its stack.
#pragma once

#include <string>

#include "text/chat/interpreter.h"

namespace slipstream::text::chat {

constexpr int32_t kMaxInterpreterDepth = 1200;

class Interpreter::Nesting {
 public:
  explicit Nesting(Interpreter* interpreter) : interpreter_(interpreter) {
    if (++interpreter->depth_ > kMaxInterpreterDepth) {
      throw ChatError(
          StatusCode::kLimitExceeded,
          "The template runs deeper than " + std::to_string(kMaxInterpreterDepth) + " levels");
    }
  }
  ~Nesting() { --interpreter_->depth_; }

 private:
  Interpreter* interpreter_;
};

}  // namespace slipstream::text::chat
