// What the KV cache itself costs, without any computing: lookup, open and close, eviction.
//   kv_bench --benchmark_min_time=0.3
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kv/kv_manager.h"

namespace slipstream::kv {
namespace {

constexpr int32_t kBlock = 32;
constexpr char kKey[] = "base/0/weights-1/";

std::vector<TokenId> Draw(std::mt19937& random, size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 49152);
  return tokens;
}

OpenRequest Ask(const std::vector<TokenId>& tokens) {
  return {.cache_key = kKey, .tokens = tokens, .total_tokens = static_cast<int64_t>(tokens.size())};
}

void ComputeAndClose(KvManager& kv, int32_t slot, const std::vector<TokenId>& tokens) {
  const auto size = static_cast<int64_t>(tokens.size());
  const Result<int64_t> hit = kv.Open(slot, Ask(tokens));
  if (!hit.ok() || !kv.Extend(slot, *hit, size - *hit).ok()) std::abort();
  (void)kv.TakeCopies();
  kv.Commit(slot, tokens, size);
  kv.Close(slot, tokens, size, true);
}

/// Conversations that share a system prompt of 1,000 tokens and then go their own ways, in turns.
struct Conversations {
  Conversations(int64_t count, int64_t length) : kv(Groups(), Blocks(count * length), 4, 8192) {
    std::mt19937 random(1);
    const std::vector<TokenId> system = Draw(random, 1000);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<TokenId> tokens = system;
      for (int64_t turn = 1; turn <= 8; ++turn) {
        const auto until = static_cast<size_t>(length * turn / 8);
        if (until <= tokens.size()) continue;
        const auto more = Draw(random, until - tokens.size());
        tokens.insert(tokens.end(), more.begin(), more.end());
        ComputeAndClose(kv, 0, tokens);
      }
      tokens.push_back(7);
      all.push_back(std::move(tokens));
    }
  }
  static std::vector<GroupSpec> Groups() {
    return {{.block_tokens = kBlock, .bytes_per_block = 1}};
  }
  static std::vector<int64_t> Blocks(int64_t tokens) { return {2 * tokens / kBlock + 1024}; }

  KvManager kv;
  std::vector<std::vector<TokenId>> all;
};

/// Match of a whole conversation: range(0) conversations of range(1) tokens.
void Lookup(benchmark::State& state) {
  const Conversations talks(state.range(0), state.range(1));
  std::mt19937 random(2);
  int64_t found = 0;
  for (auto _ : state) {
    found = talks.kv.Match(kKey, talks.all[random() % talks.all.size()]);
    benchmark::DoNotOptimize(found);
  }
  state.counters["tokens found"] = static_cast<double>(found);
}

/// Open and Close of a request whose whole prompt is cached.
void OpenAndClose(benchmark::State& state) {
  Conversations talks(state.range(0), state.range(1));
  std::mt19937 random(3);
  for (auto _ : state) {
    const auto& tokens = talks.all[random() % talks.all.size()];
    const Result<int64_t> hit = talks.kv.Open(0, Ask(tokens));
    if (!hit.ok()) std::abort();
    (void)talks.kv.TakeCopies();
    talks.kv.Close(0, tokens, *hit, true);
  }
}

std::vector<int64_t> Slots(bool host_tier) {
  return host_tier ? std::vector<int64_t>{8192} : std::vector<int64_t>();
}

/// New prompts of 4,096 tokens through a full pool: each block is one eviction, one insertion.
/// range(0): 0 without cache, 1 with it, 2 with a host tier below that is full too; the difference
/// is what each costs without any hit. Of the moves, only ordering them counts here.
void EvictionPerBlock(benchmark::State& state) {
  KvManager kv(Conversations::Groups(), std::vector<int64_t>{16384}, 4, 8192,
               {.enable_cache = state.range(0) != 0, .host_slots = Slots(state.range(0) == 2)});
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) ComputeAndClose(kv, 0, Draw(random, 4096));
  std::vector<TokenId> tokens = Draw(random, 4096);
  for (auto _ : state) {
    ++tokens[random() % 8];
    ComputeAndClose(kv, 0, tokens);
  }
  state.counters["per block"] = benchmark::Counter(
      128, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Producer of each of range(0) open sequences that wait for one prompt of 4,096 tokens.
void Producers(benchmark::State& state) {
  const auto count = static_cast<int32_t>(state.range(0));
  KvManager kv(Conversations::Groups(), std::vector<int64_t>{65536}, count, 8192);
  std::mt19937 random(5);
  const std::vector<TokenId> tokens = Draw(random, 4096);
  for (int32_t slot = 0; slot < count; ++slot) (void)kv.Open(slot, Ask(tokens));
  for (auto _ : state) {
    for (int32_t slot = 0; slot < count; ++slot) benchmark::DoNotOptimize(kv.Producer(slot));
  }
}

BENCHMARK(Lookup)->Args({64, 4096})->Args({1000, 4096});
BENCHMARK(OpenAndClose)->Args({64, 4096});
BENCHMARK(EvictionPerBlock)->Arg(0)->Arg(1)->Arg(2);
BENCHMARK(Producers)->Arg(64)->Arg(256);

}  // namespace
}  // namespace slipstream::kv

BENCHMARK_MAIN();
