// Text in, text out, as it is generated: stream FILE.engine "PROMPT" [MAX_TOKENS]
#include <cstdlib>
#include <iostream>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "stream: " << status.message() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: stream FILE.engine PROMPT [MAX_TOKENS]\n";
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

  slipstream::Request request{.prompt = argv[2]};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = argc == 4 ? std::atoi(argv[3]) : 64;
  auto id = (*executor)->Submit(request);
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
