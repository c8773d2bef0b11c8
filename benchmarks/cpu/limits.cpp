// What this machine can do at all, measured in the same run as the engines: DRAM read bandwidth and
// the f32 FMA peak.
//   g++ -O3 -march=native -pthread limits.cpp -o limits && ./limits THREADS  ->  one JSON line
#include <immintrin.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs fn(thread) on every thread and gives the wall time of the slowest.
template <class F>
double Parallel(int threads, F fn) {
  std::vector<std::thread> pool;
  const auto start = Clock::now();
  for (int t = 0; t < threads; ++t) pool.emplace_back(fn, t);
  for (auto& thread : pool) thread.join();
  return Seconds(start);
}

double ReadBandwidth(int threads) {
  constexpr size_t kBytes = size_t{512} << 20;  // far beyond the last-level cache
  std::vector<uint64_t> data(kBytes / 8, 1);
  std::vector<uint64_t> sums(threads * 16);
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double seconds = Parallel(threads, [&](int t) {
      const size_t share = data.size() / threads;
      const auto* p = reinterpret_cast<const __m256i*>(data.data() + t * share);
      __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
      for (size_t i = 0; i + 4 <= share / 4; i += 4) {
        a = _mm256_add_epi64(a, _mm256_loadu_si256(p + i));
        b = _mm256_add_epi64(b, _mm256_loadu_si256(p + i + 1));
        c = _mm256_add_epi64(c, _mm256_loadu_si256(p + i + 2));
        d = _mm256_add_epi64(d, _mm256_loadu_si256(p + i + 3));
      }
      const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
      sums[t * 16] = static_cast<uint64_t>(_mm256_extract_epi64(sum, 0));
    });
    if (sums[0] == 0) std::abort();
    best = std::max(best, kBytes / seconds / 1e9);
  }
  return best;
}

double FmaPeak(int threads) {
  constexpr int64_t kRounds = 20'000'000;
  constexpr int kChains = 10;
#ifdef __AVX512F__
  using V = __m512;
  auto set1 = [](float x) { return _mm512_set1_ps(x); };
  auto fma = [](V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); };
#else
  using V = __m256;
  auto set1 = [](float x) { return _mm256_set1_ps(x); };
  auto fma = [](V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); };
#endif
  std::vector<float> sinks(threads * 64);
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const double seconds = Parallel(threads, [&](int t) {
      V acc[kChains];
      for (auto& a : acc) a = set1(0.5f);
      const V x = set1(0.999f), y = set1(0.001f);
      for (int64_t i = 0; i < kRounds; ++i) {
        for (auto& a : acc) a = fma(a, x, y);
      }
      for (auto& a : acc) sinks[t * 64] += reinterpret_cast<float*>(&a)[0];
    });
    if (sinks[0] == 0.0f) std::abort();
    best = std::max(best, 2.0 * kRounds * kChains * (sizeof(V) / 4) * threads / seconds / 1e9);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::printf("{\"threads\": %d, \"read_gb_s\": %.1f, \"fma_gflop_s\": %.1f}\n", threads,
              ReadBandwidth(threads), FmaPeak(threads));
  return 0;
}
