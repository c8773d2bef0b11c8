// Conversations that are idle move out of the small KV pool into a file, and go on without being
// computed again: host_tier FILE.engine
#include <iostream>
#include <string>
#include <vector>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "host_tier: " << status.message() << '\n';
  return 1;
}

slipstream::Result<slipstream::Response> Ask(slipstream::Executor& executor,
                                             const std::string& text) {
  slipstream::Request request{.prompt = text};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 16;
  const auto id = executor.Submit(std::move(request));
  if (!id.ok()) return id.status();
  slipstream::Response answer;
  while (!answer.finished()) {
    auto news = executor.Next(*id);
    if (!news.ok()) return news.status();
    if (!news->status.ok()) return news->status;
    answer.Join(*std::move(news));
  }
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: host_tier FILE.engine\n";
    return 2;
  }
  auto engine = slipstream::Engine::Load(argv[1]);
  if (!engine.ok()) return Fail(engine.status());
  auto runtime = slipstream::Runtime::Create();
  if (!runtime.ok()) return Fail(runtime.status());
  auto model = slipstream::Model::Create(*runtime, *engine);
  if (!model.ok()) return Fail(model.status());
  // Of SmolLM2-135M, 16 MiB take the keys and values of one such conversation, not of four.
  auto executor = slipstream::Executor::Create(
      *model, {.kv_memory_bytes = 16 << 20, .host_kv_bytes = 128 << 20});
  if (!executor.ok()) return Fail(executor.status());

  std::vector<std::string> conversations;
  for (const char* place : {"library", "museum", "harbour", "station"}) {
    std::string text = std::string("These are the rules of the ") + place + ".";
    for (int rule = 1; rule <= 20; ++rule)
      text += " Rule " + std::to_string(rule) + ": wait " + std::to_string(rule + 3) + " minutes.";
    conversations.push_back(text + " In short,");
  }
  int64_t cached = 0, prompt_tokens = 0;
  for (int turn = 1; turn <= 2; ++turn) {
    for (std::string& text : conversations) {
      const auto answer = Ask(**executor, text);
      if (!answer.ok()) return Fail(answer.status());
      text += answer->text + " Also,";
      if (turn == 1) continue;
      cached += answer->cached_tokens;
      prompt_tokens += answer->prompt_tokens;
      std::cout << answer->text << '\n';
    }
  }
  const slipstream::ExecutorStats stats = (*executor)->Stats();
  std::cout << "second turns: " << prompt_tokens << " prompt tokens, of which " << cached
            << " were not computed again\n"
            << "blocks moved out: " << stats.blocks_swapped_out
            << ", brought back: " << stats.blocks_swapped_in << '\n';
}
