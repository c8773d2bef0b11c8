// The fair lock, and the thread that works for its owner.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "core/fair_mutex.h"
#include "core/worker.h"

namespace slipstream::core {
namespace {

TEST(FairMutexTest, ServesInOrderOfArrival) {
  FairMutex turn;
  std::atomic<int64_t> counts[2] = {0, 0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> loops;
  for (int i = 0; i < 2; ++i) {
    loops.emplace_back([&, i] {
      while (!stop) {
        std::lock_guard<FairMutex> guard(turn);
        ++counts[i];
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  while (counts[0] + counts[1] < 200) std::this_thread::yield();
  stop = true;
  for (std::thread& loop : loops) loop.join();
  // A loop that wants the turn again at once does not get it before the one that waits.
  EXPECT_GT(std::min(counts[0], counts[1]), 60);
}

TEST(WorkerTest, WorksWhileItsOwnerGoesOn) {
  auto worker = Worker::Create();
  ASSERT_TRUE(worker.ok()) << worker.status().message();
  (*worker)->Wait();  // nothing was started
  struct Job {
    std::atomic<bool> begun{false}, may_end{false};
    std::thread::id thread;
    int64_t runs = 0;  // no atomic: Wait must show it
  } job;
  for (int64_t run = 1; run <= 1000; ++run) {
    job.begun = job.may_end = false;
    (*worker)->Start(
        [](void* ctx) {
          Job& work = *static_cast<Job*>(ctx);
          work.begun = true;
          while (!work.may_end) std::this_thread::yield();
          work.thread = std::this_thread::get_id();
          ++work.runs;
        },
        &job);
    while (!job.begun) std::this_thread::yield();  // for ever, if Start did not return at once
    job.may_end = true;
    (*worker)->Wait();
    (*worker)->Wait();
    ASSERT_EQ(job.runs, run);
  }
  EXPECT_NE(job.thread, std::this_thread::get_id());
}

TEST(WorkerTest, StartAndTheEndWaitForWhatWasStarted) {
  std::atomic<int> runs{0};
  const auto count = [](void* ctx) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++*static_cast<std::atomic<int>*>(ctx);
  };
  {
    auto worker = Worker::Create();
    ASSERT_TRUE(worker.ok()) << worker.status().message();
    for (int i = 0; i < 5; ++i) {
      (*worker)->Start(count, &runs);
      EXPECT_GE(runs, i);
    }
  }
  EXPECT_EQ(runs, 5);
}

}  // namespace
}  // namespace slipstream::core
