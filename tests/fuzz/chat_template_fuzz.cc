// A chat template on a conversation: the input is both, with a line "----" between them; without
// that line, the template alone on a conversation that is always the same.
#include <cstdint>
#include <ctime>
#include <string_view>

#include "slipstream/chat.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kSeparator = "\n----\n";
  const size_t at = input.find(kSeparator);
  const bool has_messages = at != std::string_view::npos;
  const auto chat = slipstream::ChatTemplate::Parse(input.substr(0, at));
  if (!chat.ok()) return 0;
  const std::string_view messages =
      has_messages
          ? input.substr(at + kSeparator.size())
          : R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é 1"}])";
  slipstream::ChatOptions options;
  options.tools_json = R"([{"type": "function", "function": {"name": "now", "parameters": {}}}])";
  options.variables_json = R"({"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": true})";
  options.clock = [] {
    std::tm time{};
    time.tm_year = 126;
    time.tm_mday = 1;
    return time;
  };
  const auto first = chat->Render(messages, options);
  options.add_generation_prompt = false;
  const auto second = chat->Render(messages, options);
  const auto again = chat->Render(messages, options);
  // A rendering depends on nothing but its inputs.
  if (second.ok() != again.ok() || (second.ok() && *second != *again)) __builtin_trap();
  return 0;
}
