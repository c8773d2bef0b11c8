// Two executors and a router that sends each prompt to the one that has most of it cached: it
// learns what they have from their KV events alone.
//   kv_events FILE.engine
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "slipstream/engine.h"
#include "slipstream/executor.h"

namespace {

// What one executor has: every stored run of tokens, whole, by the hash of its last block.
struct Replica {
  std::unique_ptr<slipstream::Executor> executor;
  std::set<uint64_t> blocks;
  int answered = 0;

  void Learn() {
    const auto taken = executor->TakeKvEvents();
    if (!taken.ok()) return;
    for (const slipstream::KvEvent& event : taken->events) {
      if (event.group != 0) continue;
      for (const uint64_t hash : event.hashes) {
        if (event.kind == slipstream::KvEvent::Kind::kStored) blocks.insert(hash);
        if (event.kind == slipstream::KvEvent::Kind::kRemoved) blocks.erase(hash);
      }
    }
  }
};

int Fail(const slipstream::Status& status) {
  std::fprintf(stderr, "kv_events: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kv_events FILE.engine\n");
    return 2;
  }
  const auto engine = slipstream::Engine::Load(argv[1]);
  if (!engine.ok()) return Fail(engine.status());
  const auto runtime = slipstream::Runtime::Create();
  if (!runtime.ok()) return Fail(runtime.status());
  const auto model = slipstream::Model::Create(*runtime, *engine);
  if (!model.ok()) return Fail(model.status());
  Replica replicas[2];
  for (Replica& replica : replicas) {
    auto made = slipstream::Executor::Create(
        *model, {.kv_memory_bytes = uint64_t{64} << 20, .max_kv_events = 10000});
    if (!made.ok()) return Fail(made.status());
    replica.executor = std::move(*made);
  }
  // The blocks of a conversation, as the events of the replica that served it named them.
  std::vector<std::set<uint64_t>> known(4);
  std::vector<std::string> talks;
  for (int i = 0; i < 4; ++i) {
    talks.push_back("Conversation " + std::to_string(i) + " in the library.");
    for (int line = 0; line < 12; ++line)
      talks[i] += " Line " + std::to_string(line * (i + 3)) + " is about books.";
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < talks.size(); ++i) {
      size_t best = 0, most = 0;
      for (size_t r = 0; r < 2; ++r) {
        size_t has = 0;
        for (const uint64_t hash : known[i]) has += replicas[r].blocks.count(hash);
        const bool idler = replicas[r].answered < replicas[best].answered;
        if (has > most || (has == most && idler)) best = r, most = has;
      }
      Replica& chosen = replicas[best];
      const std::set<uint64_t> before = chosen.blocks;
      slipstream::Request request{.prompt = talks[i]};
      request.sampling.max_tokens = 16;
      request.sampling.temperature = 0;
      const auto id = chosen.executor->Submit(std::move(request));
      if (!id.ok()) return Fail(id.status());
      slipstream::Response answer;
      while (!answer.finished()) {
        auto news = chosen.executor->Next(*id);
        if (!news.ok()) return Fail(news.status());
        answer.Join(std::move(*news));
      }
      if (!answer.status.ok()) return Fail(answer.status);
      ++chosen.answered;
      chosen.Learn();
      for (const uint64_t hash : chosen.blocks) {
        if (before.count(hash) == 0) known[i].insert(hash);
      }
      std::printf("turn %d, conversation %zu: replica %zu, %d of %d prompt tokens cached\n", turn,
                  i, best, answer.cached_tokens, answer.prompt_tokens);
      talks[i] += answer.text + " Go on.";
    }
  }
  return 0;
}
