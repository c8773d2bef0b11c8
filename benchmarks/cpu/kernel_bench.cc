// Kernels of one thread: GEMM at the shapes of a small and a 1B model, attention, the roof of the
// machine (FMA, memory).
//   kernel_bench --benchmark_filter='Gemm/avx512' --benchmark_min_time=0.3
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/numerics.h"
#include "exec/cpu/dispatch.h"
#include "exec/mapped_memory.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

/// Pages written, so that they are not the shared zero page, with finite values of any type.
MappedMemory Filled(int64_t bytes) {
  MappedMemory memory = std::move(*MappedMemory::Create(bytes, "a benchmark"));
  std::mt19937 rng(1);
  for (int64_t i = 0; i + 2 <= bytes; i += 2) {
    const uint16_t bits =
        static_cast<uint16_t>(0x3c00 + (rng() & 0x83ff));  // about +-1 as bf16, f16 and f32
    std::memcpy(memory.data() + i, &bits, 2);
  }
  return memory;
}

/// Rows x K times K x N. The weights are taken from a buffer larger than the caches, another part
/// at each repetition.
void Gemm(benchmark::State& state, const KernelTable* kernels, DType type, int32_t k, int32_t n) {
  const int32_t rows = static_cast<int32_t>(state.range(0));
  const int64_t weight_bytes = int64_t{n} * k * core::DTypeSize(type);
  const int64_t copies = rows < 16 ? 1 + (int64_t{256} << 20) / weight_bytes : 1;
  const MappedMemory weights = Filled(weight_bytes * copies);
  const MappedMemory x = Filled(int64_t{rows} * k * 4);
  const MappedMemory y = Filled(int64_t{rows} * n * 4);
  const MappedMemory pack = Filled(int64_t{kPackFloats} * 4);
  GemmArgs args;
  args.x = reinterpret_cast<const float*>(x.data());
  args.x_stride = k;
  args.row_end = rows;
  args.k = k;
  args.w_type = type;
  args.y = reinterpret_cast<float*>(y.data());
  args.y_stride = n;
  args.block_end = n / 16;
  args.pack = reinterpret_cast<float*>(pack.data());
  int64_t i = 0;
  for (auto _ : state) {
    args.w = weights.data() + (i++ % copies) * weight_bytes;
    kernels->gemm(args);
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(2e-9 * rows * k * n, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      Counter(1e-9 * static_cast<double>(weight_bytes), Counter::kIsIterationInvariantRate);
}

/// Attention of `rows` last rows of a context, SmolLM2's heads (9 over 3, 64 wide).
void Attention(benchmark::State& state, const KernelTable* kernels, DType type) {
  const int32_t rows = static_cast<int32_t>(state.range(0));
  const int32_t context = static_cast<int32_t>(state.range(1));
  const int32_t heads = 9, kv_heads = 3, dim = 64;
  const int64_t bytes_per_block = int64_t{2} * kv_heads * dim * 32 * core::DTypeSize(type);
  const int32_t blocks = (context + 31) / 32;
  const MappedMemory pool = Filled(blocks * bytes_per_block + kKvPoolPadding);
  const MappedMemory q = Filled(int64_t{rows} * heads * dim * 4);
  const MappedMemory o = Filled(int64_t{rows} * heads * dim * 4);
  std::vector<int32_t> table(blocks);
  for (int32_t b = 0; b < blocks; ++b) table[b] = b;
  std::vector<AttentionItem> items;
  for (int32_t h = 0; h < kv_heads; ++h) {
    for (int32_t r = 0; r < rows; r += 4) {
      items.push_back(
          {r, std::min(rows, r + 4), h * 3, h * 3 + 3, context - rows + r, table.data()});
    }
  }
  std::vector<float> scratch(AttentionScratchFloats(dim));
  AttentionArgs a;
  a.q = reinterpret_cast<const float*>(q.data());
  a.o = reinterpret_cast<float*>(o.data());
  a.q_stride = a.o_stride = heads * dim;
  a.kv = {pool.data(), bytes_per_block, 0, bytes_per_block / 2, type, kv_heads, dim};
  a.heads = heads;
  a.scale = 0.01f;
  a.items = items.data();
  a.item_end = static_cast<int64_t>(items.size());
  a.scratch = scratch.data();
  for (auto _ : state) {
    kernels->attention(a);
    benchmark::ClobberMemory();
  }
  const double pairs = static_cast<double>(rows) * (context - rows / 2.0);
  state.counters["GFLOP/s"] =
      benchmark::Counter(4e-9 * pairs * heads * dim, benchmark::Counter::kIsIterationInvariantRate);
}

/// What one thread can read from memory.
void ReadMemory(benchmark::State& state) {
  const MappedMemory memory = Filled(int64_t{256} << 20);
  for (auto _ : state) {
    uint64_t sum[8] = {};
    const auto* words = reinterpret_cast<const uint64_t*>(memory.data());
    for (int64_t i = 0; i < memory.size() / 8; i += 8) {
      for (int j = 0; j < 8; ++j) sum[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["GB/s"] = benchmark::Counter(1e-9 * static_cast<double>(memory.size()),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void Register() {
  benchmark::RegisterBenchmark("ReadMemory", ReadMemory);
  for (CpuPath path : {CpuPath::kAvx2, CpuPath::kAvx512}) {
    const Result<const KernelTable*> kernels = KernelsOf(path);
    if (!kernels.ok()) continue;
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      const std::string tail = std::string("/") + (*kernels)->name + "/" + core::DTypeName(type);
      for (const auto& [k, n] :
           {std::pair{576, 3072}, std::pair{1536, 576}, std::pair{2048, 8192}}) {
        const std::string name = "Gemm" + tail + "/" + std::to_string(k) + "x" + std::to_string(n);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [kernels = *kernels, type = type, k = k,
                                      n = n](benchmark::State& s) { Gemm(s, kernels, type, k, n); })
            ->Arg(1)
            ->Arg(2)
            ->Arg(4)
            ->Arg(8)
            ->Arg(16)
            ->Arg(512);
      }
      benchmark::RegisterBenchmark(
          ("Attention" + tail).c_str(),
          [kernels = *kernels, type = type](benchmark::State& s) { Attention(s, kernels, type); })
          ->Args({1, 512})
          ->Args({1, 4096})
          ->Args({512, 512});
    }
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu

int main(int argc, char** argv) {
  slipstream::exec::cpu::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
