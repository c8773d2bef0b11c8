#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/cpu_features.h"

namespace slipstream::core {
namespace {

TEST(CpuFeatures, AgreesWithTheCompilersDetection) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  EXPECT_EQ(HostCpuFeatures().avx2, avx2);
  EXPECT_EQ(HostCpuFeatures().avx512, avx512);
}

TEST(CpuFeatures, AutoTakesTheWidest) {
  EXPECT_EQ(*ResolveCpuPath(CpuPath::kAuto, {.avx2 = false, .avx512 = false}),
            CpuPath::kEmulated16);
  EXPECT_EQ(*ResolveCpuPath(CpuPath::kAuto, {.avx2 = true, .avx512 = false}), CpuPath::kAvx2);
  EXPECT_EQ(*ResolveCpuPath(CpuPath::kAuto, {.avx2 = true, .avx512 = true}), CpuPath::kAvx512);
}

TEST(CpuFeatures, AnUnavailablePathIsAnErrorNeverAFallback) {
  const CpuFeatures none;
  EXPECT_EQ(*ResolveCpuPath(CpuPath::kScalar, none), CpuPath::kScalar);
  EXPECT_EQ(*ResolveCpuPath(CpuPath::kEmulated16, none), CpuPath::kEmulated16);
  for (CpuPath path : {CpuPath::kAvx2, CpuPath::kAvx512}) {
    auto resolved = ResolveCpuPath(path, none);
    ASSERT_FALSE(resolved.ok());
    EXPECT_EQ(resolved.status().code(), StatusCode::kIncompatible);
    EXPECT_NE(resolved.status().message().find(CpuPathName(path)), std::string::npos);
  }
  auto unknown = ResolveCpuPath(static_cast<CpuPath>(77), none);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
}

TEST(UsableCores, FollowsTheAffinityMask) {
  const int32_t all = UsableCores();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, static_cast<int32_t>(std::thread::hardware_concurrency()));
  cpu_set_t saved;
  ASSERT_EQ(sched_getaffinity(0, sizeof(saved), &saved), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &saved)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(saved), &saved), 0);
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "cgroup_test_" + std::to_string(getpid());
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root_;
};

TEST_F(CgroupTest, NoQuota) {
  EXPECT_EQ(CgroupCpuLimit("", root_), 0);
  EXPECT_EQ(CgroupCpuLimit("garbage\n0::/\n", root_), 0);
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuLimit("0::/\n", root_), 0);
  Write("cpu.max", "nonsense\n");
  EXPECT_EQ(CgroupCpuLimit("0::/\n", root_), 0);
}

TEST_F(CgroupTest, Version2TakesTheTightestOfTheParents) {
  Write("a/b/cpu.max", "350000 100000\n");
  EXPECT_EQ(CgroupCpuLimit("0::/a/b\n", root_), 3);
  Write("a/cpu.max", "200000 100000\n");
  EXPECT_EQ(CgroupCpuLimit("0::/a/b\n", root_), 2);
  Write("cpu.max", "50000 100000\n");  // Half a core still runs one thread.
  EXPECT_EQ(CgroupCpuLimit("0::/a/b\n", root_), 1);
}

TEST_F(CgroupTest, PathOfTheHostFallsBackToTheMountPoint) {
  Write("cpu.max", "400000 100000\n");
  EXPECT_EQ(CgroupCpuLimit("0::/not/visible/here\n", root_), 4);
}

TEST_F(CgroupTest, Version1) {
  Write("cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n");
  Write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  Write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuLimit("4:memory:/x\n3:cpu,cpuacct:/x\n", root_), 2);
}

}  // namespace
}  // namespace slipstream::core
