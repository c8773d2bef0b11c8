// A conversation in the terminal, one line a message: chat FILE.engine [MAX_TOKENS]
// /reset forgets the conversation, Ctrl-D ends. Exit code 1 if a message was refused.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "chat: " << status.message() << '\n';
  return 1;
}

/// A message as JSON. Bytes that are not UTF-8 stay, and ApplyChatTemplate refuses them.
std::string Message(const std::string& role, const std::string& text) {
  std::string json = R"({"role": ")" + role + R"(", "content": ")";
  for (const char c : text) {
    char escaped[8] = {c};
    if (c == '"' || c == '\\' || (c >= 0 && c < ' ')) {
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
    }
    json += escaped;
  }
  return json + "\"}";
}

/// Prints the answer to a conversation as it comes.
slipstream::Result<std::string> Answer(const slipstream::Engine& engine,
                                       slipstream::Executor& executor, const std::string& messages,
                                       int32_t max_tokens) {
  auto prompt = engine.ApplyChatTemplate("[" + messages + "]");
  if (!prompt.ok()) return prompt.status();
  // The template has written the special tokens already.
  slipstream::Request request{.prompt = *std::move(prompt), .add_special_tokens = false};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  auto id = executor.Submit(request);
  if (!id.ok()) return id.status();
  for (std::string answer;;) {
    auto response = executor.Next(*id);
    if (!response.ok()) return response.status();
    if (!response->status.ok()) return response->status;
    std::cout << response->text << std::flush;
    answer += response->text;
    if (response->finished()) return answer;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: chat FILE.engine [MAX_TOKENS]\n";
    return 2;
  }
  auto engine = slipstream::Engine::Load(argv[1]);
  if (!engine.ok()) return Fail(engine.status());
  auto runtime = slipstream::Runtime::Create();
  if (!runtime.ok()) return Fail(runtime.status());
  auto model = slipstream::Model::Create(*runtime, *engine);
  if (!model.ok()) return Fail(model.status());
  auto executor = slipstream::Executor::Create(*model);
  if (!executor.ok()) return Fail(executor.status());

  const int32_t max_tokens = argc == 3 ? std::atoi(argv[2]) : 512;
  const char* caret = isatty(STDIN_FILENO) ? ">>> " : "";
  std::string history;
  int exit_code = 0;
  for (std::string line; std::cerr << caret, std::getline(std::cin, line);) {
    if (line == "/reset") history.clear();
    if (line.empty() || line == "/reset") continue;
    const std::string messages = history + (history.empty() ? "" : ", ") + Message("user", line);
    auto answer = Answer(*engine, **executor, messages, max_tokens);
    if (!answer.ok()) {
      exit_code = Fail(answer.status());
      continue;
    }
    std::cout << '\n';
    history = messages + ", " + Message("assistant", *answer);
  }
  return exit_code;
}
