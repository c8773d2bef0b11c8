// What the executor itself costs a step: a null backend in place of a model, so that all of the
// time is admission, planning, blocks, batches and delivery.
//
//     scheduler_bench [steps]        prints medians and 99th percentiles in microseconds
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "exec/null_backend.h"
#include "executor/executor.h"

namespace slipstream::executor {
namespace {

constexpr int32_t kPrompt = 100;

struct Costs {
  int64_t median = 0;
  int64_t high = 0;
};

Costs CostsOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() * 99 / 100]};
}

int Measure(int32_t running, int32_t steps, bool prefix_cache) {
  const EngineLimits limits{.max_seq_len = kPrompt + steps + 8,
                            .max_batch_size = running,
                            .max_num_tokens = std::max(512, running),
                            .vocab_size = 64};
  // A window of one position: the null backend's own work stays small.
  auto backend = exec::CreateNullBackend(
      {.limits = limits,
       .groups = {{.bytes_per_block = 128}, {.bytes_per_block = 128, .window = 32}}});
  ExecutorParts parts;
  parts.backend = *std::move(backend);
  parts.facts = {limits, {}, std::nullopt};
  auto executor = CreateExecutor(std::move(parts), {.kv_memory_bytes = uint64_t{1} << 30,
                                                    .prefix_cache = prefix_cache,
                                                    .iteration_history = 1 << 20});
  if (!executor.ok()) {
    std::fprintf(stderr, "%s\n", executor.status().message().c_str());
    return 1;
  }
  std::vector<Request> requests(running);
  for (int32_t i = 0; i < running; ++i) {
    for (int32_t p = 0; p < kPrompt; ++p)
      requests[i].prompt_token_ids.push_back((i * 31 + p * 7) % limits.vocab_size);
    requests[i].sampling = {
        .max_tokens = steps, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  }
  const auto ids = (*executor)->SubmitMany(std::move(requests), [](const Response&) {});
  for (const auto& id : ids) {
    if (!id.ok()) {
      std::fprintf(stderr, "%s\n", id.status().message().c_str());
      return 1;
    }
  }
  (*executor)->Drain();
  std::vector<int64_t> schedule;
  for (const Iteration& iteration : (*executor)->Iterations()) {
    if (iteration.decode_rows == running) schedule.push_back(iteration.schedule_us);
  }
  if (schedule.empty()) {
    std::fprintf(stderr, "no step held all %d requests; give more steps\n", running);
    return 1;
  }
  const Costs costs = CostsOf(schedule);
  const ExecutorStats stats = (*executor)->Stats();
  std::printf(
      "%4d running, cache %-3s: schedule %4lld us (99%%: %lld), deliver %5.1f us a step, %zu "
      "steps\n",
      running, prefix_cache ? "on" : "off", static_cast<long long>(costs.median),
      static_cast<long long>(costs.high),
      static_cast<double>(stats.deliver_us) / static_cast<double>(stats.steps), schedule.size());
  return 0;
}

}  // namespace
}  // namespace slipstream::executor

int main(int argc, char** argv) {
  const int32_t steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (argc > 2 || steps < 1 || steps > 100000) {
    std::fprintf(stderr, "usage: scheduler_bench [steps from 1 to 100000]\n");
    return 2;
  }
  for (const int32_t running : {64, 256}) {
    for (const bool cache : {false, true}) {
      if (slipstream::executor::Measure(running, steps, cache) != 0) return 1;
    }
  }
  return 0;
}
