// System calls of the loader and of the runtime that fail: each gives a status that says why,
// closes what was opened, and works again afterwards.
#include <dirent.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "fault_injection.h"
#include "slipstream/executor.h"
#include "tiny_engine_file.h"

namespace slipstream {
namespace {

using fault::CountCalls;
using fault::Inject;
using fault::Point;

constexpr ExecutorConfig kConfig{.kv_memory_bytes = 1 << 20};

int Entries(const char* folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(opendir(folder), closedir);
  int entries = 0;
  while (list != nullptr && readdir(list.get()) != nullptr) ++entries;
  return entries;
}

int OpenFiles() { return Entries("/proc/self/fd"); }
int Threads() { return Entries("/proc/self/task"); }

class SystemFaultTest : public testing::Test {
 protected:
  const TinyEngineFile file_{"fault_system_test"};

  void ExpectFailure(Point point, int64_t call, int error, StatusCode code, const char* words) {
    const int files = OpenFiles();
    std::optional<Status> status;
    {
      const Inject inject(point, call, 1, error);
      status.emplace(Engine::Load(file_.path()).status());
      EXPECT_TRUE(inject.hit());
    }
    EXPECT_EQ(status->code(), code) << status->message();
    EXPECT_NE(status->message().find(file_.path()), std::string::npos) << status->message();
    EXPECT_NE(status->message().find(words), std::string::npos) << status->message();
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_TRUE(Engine::Load(file_.path()).ok());
  }
};

TEST_F(SystemFaultTest, OpeningAndMappingTheFile) {
  ExpectFailure(Point::kOpen, 0, EACCES, StatusCode::kIo, "Permission denied");
  ExpectFailure(Point::kOpen, 0, EMFILE, StatusCode::kIo, "Too many open files");
  ExpectFailure(Point::kOpen, 0, ENOENT, StatusCode::kNotFound, "no such file");
  ExpectFailure(Point::kStat, 0, EIO, StatusCode::kIo, "Input/output error");
  ExpectFailure(Point::kMap, 0, ENOMEM, StatusCode::kIo, "Cannot allocate memory");
  ExpectFailure(Point::kMap, 0, ENODEV, StatusCode::kIo, "No such device");
}

TEST_F(SystemFaultTest, ASignalDuringOpenIsNoFailure) {
  for (const int64_t interruptions : {1, 5}) {
    const Inject inject(Point::kOpen, 0, interruptions, EINTR);
    const auto engine = Engine::Load(file_.path());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_TRUE(inject.hit());
  }
}

TEST_F(SystemFaultTest, ReadingAheadIsOnlyAHint) {
  const Inject inject(Point::kAdvise, 0, Inject::kForever, EINVAL);
  const auto engine = Engine::Load(file_.path(), Verify::kFull);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto runtime = Runtime::Create({.threads = 1});
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE(Executor::Create(*model, kConfig).ok());
}

TEST_F(SystemFaultTest, EveryMappingOfModelAndExecutor) {
  const auto engine = Engine::Load(file_.path());
  const auto runtime = Runtime::Create({.threads = 2});
  ASSERT_TRUE(engine.ok() && runtime.ok());
  const auto create = [&]() -> Status {
    auto model = Model::Create(*runtime, *engine);
    if (!model.ok()) return model.status();
    return Executor::Create(*model, kConfig).status();
  };
  const int64_t mappings = CountCalls(Point::kMap, [&] { ASSERT_TRUE(create().ok()); });
  EXPECT_GE(mappings, 4);  // arena, scratch, two KV pools
  for (int64_t n = 0; n < mappings; ++n) {
    std::optional<Status> status;
    {
      const Inject inject(Point::kMap, n, 1, ENOMEM);
      status.emplace(create());
      EXPECT_TRUE(inject.hit());
    }
    EXPECT_EQ(status->code(), StatusCode::kResourceExhausted) << status->message();
    EXPECT_NE(status->message().find("Cannot allocate memory"), std::string::npos)
        << status->message();
    EXPECT_TRUE(create().ok());
  }
}

TEST_F(SystemFaultTest, EveryThreadOfARuntime) {
  std::thread([] {}).join();  // with the first thread a sanitizer may start one of its own
  const int threads = Threads();
  for (int n = 0; n < 7; ++n) {
    std::optional<Status> status;
    {
      const Inject inject(Point::kStartThread, n, 1, EAGAIN);
      status.emplace(Runtime::Create({.threads = 8}).status());
      EXPECT_TRUE(inject.hit());
    }
    EXPECT_EQ(status->code(), StatusCode::kResourceExhausted);
    EXPECT_NE(status->message().find("Thread " + std::to_string(n + 2) + " of 8"),
              std::string::npos)
        << status->message();
    EXPECT_NE(status->message().find("Resource temporarily unavailable"), std::string::npos);
    EXPECT_EQ(Threads(), threads);
  }
  EXPECT_TRUE(Runtime::Create({.threads = 8}).ok());
}

TEST_F(SystemFaultTest, TheThreadOfAnExecutor) {
  const auto engine = Engine::Load(file_.path());
  const auto runtime = Runtime::Create({.threads = 1});
  ASSERT_TRUE(engine.ok() && runtime.ok());
  const auto model = Model::Create(*runtime, *engine);
  ASSERT_TRUE(model.ok());
  std::optional<Status> status;
  {
    const Inject inject(Point::kStartThread, 0, 1, EAGAIN);
    status.emplace(Executor::Create(*model, kConfig).status());
    EXPECT_TRUE(inject.hit());
  }
  EXPECT_EQ(status->code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status->message().find("thread cannot start"), std::string::npos) << status->message();
  EXPECT_TRUE(Executor::Create(*model, kConfig).ok());
}

}  // namespace
}  // namespace slipstream
