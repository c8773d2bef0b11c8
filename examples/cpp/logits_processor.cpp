// Own rules for the next token: an answer without digits: logits_processor FILE.engine PROMPT
#include <algorithm>
#include <cctype>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "logits_processor: " << status.message() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: logits_processor FILE.engine PROMPT\n";
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

  const auto is_digit = [](unsigned char byte) { return std::isdigit(byte) != 0; };
  std::vector<slipstream::TokenId> banned;
  for (slipstream::TokenId id = 0; id < engine->limits().vocab_size; ++id) {
    const std::string token = engine->tokenizer().IdToToken(id);
    if (std::any_of(token.begin(), token.end(), is_digit)) banned.push_back(id);
  }
  slipstream::Request request{.prompt = argv[2]};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 32;
  // Runs on the executor's thread for each token: the tokens so far, and the row to change.
  request.logits_processors.push_back(
      [&banned](std::span<const slipstream::TokenId>, std::span<float> logits) {
        for (const slipstream::TokenId id : banned)
          logits[id] = -std::numeric_limits<float>::infinity();
      });
  auto id = (*executor)->Submit(std::move(request));
  if (!id.ok()) return Fail(id.status());
  for (;;) {
    auto response = (*executor)->Next(*id);
    if (!response.ok()) return Fail(response.status());
    if (!response->status.ok()) return Fail(response->status);
    std::cout << response->text << std::flush;
    if (response->finished()) break;
  }
  std::cout << '\n';
}
