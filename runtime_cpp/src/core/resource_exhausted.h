// How a border reports that memory or threads ran out.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "slipstream/status.h"

namespace slipstream::core {

/// kResourceExhausted with the joined parts. Where not even the message fits into memory any more,
/// it is a short one that std::string holds in itself: a handler of std::bad_alloc must not throw.
template <class... Parts>
Status ResourceExhausted(const Parts&... parts) noexcept {
  try {
    std::string message;
    (message.append(std::string_view(parts)), ...);
    return Status(StatusCode::kResourceExhausted, std::move(message));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "Out of memory.");
  }
}

}  // namespace slipstream::core
