// ChatOptions from the keyword arguments that both renderings of a conversation take.
#pragma once

#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "slipstream/chat.h"

namespace slipstream::python {

/// time.struct_time without the time zone: year, month, day, hour, minute, second, weekday (Monday
/// is 0), day of the year (from 1).
using LocalTime = std::array<int, 8>;

inline std::tm ToTm(const LocalTime& time) {
  std::tm out{};
  out.tm_year = time[0] - 1900;
  out.tm_mon = time[1] - 1;
  out.tm_mday = time[2];
  out.tm_hour = time[3];
  out.tm_min = time[4];
  out.tm_sec = time[5];
  out.tm_wday = (time[6] + 1) % 7;
  out.tm_yday = time[7] - 1;
  return out;
}

inline ChatOptions MakeChatOptions(bool add_generation_prompt, std::string tools_json,
                                   std::string documents_json, std::string variables_json,
                                   const std::optional<LocalTime>& now) {
  ChatOptions options{.add_generation_prompt = add_generation_prompt,
                      .tools_json = std::move(tools_json),
                      .documents_json = std::move(documents_json),
                      .variables_json = std::move(variables_json)};
  if (now) {
    options.clock = [time = ToTm(*now)] { return time; };
  }
  return options;
}

}  // namespace slipstream::python
