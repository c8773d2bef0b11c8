// Background work that steps aside for an urgent request, and ends with the tokens it would have
// had: priorities FILE.engine
#include <future>
#include <iostream>

#include "slipstream/executor.h"

namespace {

int Fail(const slipstream::Status& status) {
  std::cerr << "priorities: " << status.message() << '\n';
  return 1;
}

slipstream::Request Make(const char* prompt, int32_t max_tokens, int32_t priority) {
  slipstream::Request request{.prompt = prompt};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.priority = priority;
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: priorities FILE.engine\n";
    return 2;
  }
  auto engine = slipstream::Engine::Load(argv[1]);
  if (!engine.ok()) return Fail(engine.status());
  auto runtime = slipstream::Runtime::Create();
  if (!runtime.ok()) return Fail(runtime.status());
  auto model = slipstream::Model::Create(*runtime, *engine);
  if (!model.ok()) return Fail(model.status());
  // One place, so that the urgent request has to take it; with kGuaranteedNoEvict it would wait.
  auto executor = slipstream::Executor::Create(
      *model, {.max_batch_size = 1, .capacity = slipstream::CapacityPolicy::kMaxUtilization});
  if (!executor.ok()) return Fail(executor.status());

  // Callbacks run on the executor's thread: they hand over what happened and return.
  std::promise<void> begun, both_ended;
  bool has_begun = false;
  int open = 2;
  const auto tell = [&](const char* name) {
    return [&, name](const slipstream::Response& news) {
      if (!has_begun) begun.set_value();
      has_begun = true;
      if (!news.finished()) return;
      std::cout << name << ": " << slipstream::FinishReasonName(news.finish_reason)
                << ", stepped aside " << news.preemptions << " times\n";
      if (--open == 0) both_ended.set_value();
    };
  };
  auto background = (*executor)->Submit(Make("Once upon a time", 200, -1), tell("background"));
  if (!background.ok()) return Fail(background.status());
  begun.get_future().wait();
  auto urgent = (*executor)->Submit(Make("The capital of France is", 4, 1), tell("urgent"));
  if (!urgent.ok()) return Fail(urgent.status());
  both_ended.get_future().wait();
}
