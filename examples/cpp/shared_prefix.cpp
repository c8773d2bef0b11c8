// Questions about one text: its prompt is computed once, also when all arrive together:
// shared_prefix FILE.engine
#include <iostream>
#include <string>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "shared_prefix: " << status.message() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: shared_prefix FILE.engine\n";
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

  std::string text = "These are the rules of the library.";
  for (int rule = 1; rule <= 20; ++rule)
    text += " Rule " + std::to_string(rule) + ": a book may be kept for " +
            std::to_string(rule + 3) + " days.";
  std::vector<slipstream::Request> requests;
  for (const char* question : {" In short,", " The longest time is", " Rule 7 says that", " So"}) {
    slipstream::Request request{.prompt = text + question};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 8;
    requests.push_back(std::move(request));
  }
  int64_t prompt_tokens = 0;
  for (const auto& id : (*executor)->SubmitMany(std::move(requests))) {
    if (!id.ok()) return Fail(id.status());
    slipstream::Response answer;
    while (!answer.finished()) {
      auto news = (*executor)->Next(*id);
      if (!news.ok()) return Fail(news.status());
      if (!news->status.ok()) return Fail(news->status);
      answer.Join(*std::move(news));
    }
    prompt_tokens += answer.prompt_tokens;
    std::cout << answer.text << '\n';
  }
  const slipstream::ExecutorStats stats = (*executor)->Stats();
  std::cout << "prompt tokens: " << prompt_tokens << ", computed: " << stats.prefill_tokens_computed
            << ", taken from others: " << stats.cached_tokens << '\n';
}
