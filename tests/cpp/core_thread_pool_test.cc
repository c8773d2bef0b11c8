#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "core/fp_env.h"
#include "core/thread_pool.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLIPSTREAM_SANITIZED 1
#endif

#ifndef SLIPSTREAM_SANITIZED
namespace {
std::atomic<int64_t> allocations{0};
}  // namespace
void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace slipstream::core {
namespace {

std::unique_ptr<ThreadPool> MakePool(int32_t threads) {
  auto pool = ThreadPool::Create(threads);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(*pool);
}

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (int32_t threads : {1, 2, 3, 4, 8}) {
    auto pool = MakePool(threads);
    ASSERT_EQ(pool->threads(), threads);
    std::vector<int> calls(threads);
    for (int round = 0; round < 300; ++round) {
      pool->ParallelFor([&](int32_t index, int32_t n) {
        EXPECT_EQ(n, threads);
        ++calls[index];  // Plain ints: a race or a lost join shows under TSan and in the sum.
      });
      EXPECT_EQ(calls, std::vector<int>(threads, round + 1));
    }
  }
}

TEST(ThreadPool, CallerIsIndexZeroAndPoolOfOneStaysOnIt) {
  for (int32_t threads : {1, 3}) {
    auto pool = MakePool(threads);
    std::thread::id first;
    pool->ParallelFor([&](int32_t index, int32_t) {
      if (index == 0) first = std::this_thread::get_id();
    });
    EXPECT_EQ(first, std::this_thread::get_id());
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  for (int32_t threads : {1, 2, 4}) {
    auto pool = MakePool(threads);
    constexpr int kPhases = 500;
    std::vector<int64_t> values(threads, 1);
    std::vector<int64_t> next(threads);
    pool->ParallelFor([&](int32_t index, int32_t n) {
      for (int phase = 0; phase < kPhases; ++phase) {
        // Each thread reads its neighbour's value of the phase before.
        next[index] = (values[(index + 1) % n] + index + phase) % 1000003;
        pool->Barrier();
        values[index] = next[index];
        pool->Barrier();
      }
    });
    std::vector<int64_t> expected(threads, 1);
    for (int phase = 0; phase < kPhases; ++phase) {
      std::vector<int64_t> step(threads);
      for (int32_t i = 0; i < threads; ++i) {
        step[i] = (expected[(i + 1) % threads] + i + phase) % 1000003;
      }
      expected = step;
    }
    EXPECT_EQ(values, expected);
  }
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  auto pool = MakePool(4);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // Far longer than the spin.
    std::atomic<int> calls{0};
    pool->ParallelFor([&](int32_t index, int32_t) {
      if (index == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      pool->Barrier();
      ++calls;
    });
    EXPECT_EQ(calls, 4);
  }
}

TEST(ThreadPool, RegionsOfSeveralCallersDoNotOverlap) {
  auto pool = MakePool(2);
  int inside = 0;  // Guarded by the pool's own serialization.
  std::atomic<int> regions{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        pool->ParallelFor([&](int32_t index, int32_t) {
          if (index == 0) {
            EXPECT_EQ(inside++, 0);
          }
          pool->Barrier();
          if (index == 1) {
            EXPECT_EQ(inside--, 1);
          }
        });
        ++regions;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(regions, 800);
  EXPECT_EQ(inside, 0);
}

TEST(ThreadPool, CreatedAndDestroyedUnused) {
  for (int i = 0; i < 50; ++i) MakePool(1 + i % 5);
}

TEST(ThreadPool, RefusesAbsurdSizes) {
  for (int32_t threads : {-1, 0, 1025, std::numeric_limits<int32_t>::max()}) {
    auto pool = ThreadPool::Create(threads);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(pool.status().message().find(std::to_string(threads)), std::string::npos);
  }
}

// Runs in the child of a death test: the limit and the user must not leak into the other tests.
[[noreturn]] void CreateUnderProcessLimit() {
  rlimit limit{1, 1};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) std::exit(10);
  if (geteuid() == 0 && setuid(65534) != 0) std::exit(11);  // The limit does not bind root.
  auto pool = ThreadPool::Create(4);
  if (pool.ok()) std::exit(12);
  if (pool.status().code() != StatusCode::kResourceExhausted) std::exit(13);
  if (pool.status().message().find("of 4 cannot start") == std::string::npos) std::exit(14);
  if (!ThreadPool::Create(1).ok()) std::exit(15);  // Needs no thread.
  std::exit(0);
}

TEST(ThreadPoolDeathTest, ThreadThatCannotStartIsAStatus) {
#ifdef SLIPSTREAM_SANITIZED
  GTEST_SKIP() << "the sanitizers' own threads run into the limit";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CreateUnderProcessLimit(), testing::ExitedWithCode(0), "");
}

TEST(ThreadPool, RunAllocatesNothing) {
#ifdef SLIPSTREAM_SANITIZED
  GTEST_SKIP() << "counts operator new, which the sanitizers own";
#else
  auto pool = MakePool(3);
  const int64_t before = allocations;
  for (int i = 0; i < 100; ++i) pool->ParallelFor([&](int32_t, int32_t) { pool->Barrier(); });
  EXPECT_EQ(allocations, before);
#endif
}

TEST(ThreadPool, RegionsRunInTheContractsFpEnvironment) {
  auto pool = MakePool(3);
  constexpr uint32_t kFtzDazTowardZero = 0x8040 | 0x6000;
  const uint32_t saved = _mm_getcsr();
  _mm_setcsr(kContractMxcsr | kFtzDazTowardZero);
  std::vector<uint32_t> seen(3);
  std::vector<float> halves(3);
  pool->ParallelFor([&](int32_t index, int32_t) {
    seen[index] = _mm_getcsr();
    volatile float tiny = std::numeric_limits<float>::min();
    halves[index] = tiny * 0.5f;
  });
  const uint32_t after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(after, kContractMxcsr | kFtzDazTowardZero);
  constexpr uint32_t kStickyFlags = 0x3F;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i] & ~kStickyFlags, kContractMxcsr);
    EXPECT_GT(halves[i], 0.0f);  // A subnormal, not flushed.
  }
}

}  // namespace
}  // namespace slipstream::core
