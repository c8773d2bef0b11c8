#include "core/cpu_features.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace slipstream::core {
namespace {

bool Bit(uint32_t value, int bit) { return (value >> bit) & 1u; }

/// XCR0: which register sets the operating system saves on a context switch. Valid only where CPUID
/// says OSXSAVE.
uint64_t ReadXcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  // Inline assembly instead of _xgetbv: the intrinsic needs -mxsave for the whole file.
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

CpuFeatures Detect() {
  CpuFeatures features;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  constexpr int kFma = 12, kOsxsave = 27, kAvx = 28, kF16c = 29;
  if (!Bit(c, kOsxsave) || !Bit(c, kAvx)) return features;
  const bool fma_f16c = Bit(c, kFma) && Bit(c, kF16c);
  const uint64_t xcr0 = ReadXcr0();
  constexpr uint64_t kYmmState = 0x6;   // SSE and AVX halves.
  constexpr uint64_t kZmmState = 0xE6;  // And opmask, both ZMM parts.
  if ((xcr0 & kYmmState) != kYmmState) return features;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  constexpr int kAvx2 = 5, kAvx512F = 16, kAvx512Dq = 17, kAvx512Bw = 30, kAvx512Vl = 31;
  features.avx2 = fma_f16c && Bit(b, kAvx2);
  features.avx512 = features.avx2 && (xcr0 & kZmmState) == kZmmState && Bit(b, kAvx512F) &&
                    Bit(b, kAvx512Dq) && Bit(b, kAvx512Bw) && Bit(b, kAvx512Vl);
  return features;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {};
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

/// Cores that share execution units count once. Where the kernel does not tell, every CPU is taken
/// as a core.
int32_t PhysicalCoresOfAffinityMask() {
  // The mask of a big machine does not fit a fixed cpu_set_t: grow until the kernel accepts the
  // size.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(cpus);
    if (mask == nullptr) return 1;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(size, mask);
    if (sched_getaffinity(0, size, mask) != 0) {
      const bool too_small = errno == EINVAL;
      CPU_FREE(mask);
      if (!too_small) return 1;
      continue;
    }
    std::set<std::string> cores;
    for (int cpu = 0; cpu < cpus; ++cpu) {
      if (!CPU_ISSET_S(cpu, size, mask)) continue;
      const std::string topology =
          "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      std::string siblings = ReadText(topology + "core_cpus_list");
      if (siblings.empty()) siblings = ReadText(topology + "thread_siblings_list");
      cores.insert(siblings.empty() ? "cpu " + std::to_string(cpu) : siblings);
    }
    CPU_FREE(mask);
    return std::max<int32_t>(1, static_cast<int32_t>(cores.size()));
  }
  return 1;
}

/// Whole cores of a quota in microseconds per period; 0 for "max", negative or unreadable values.
int32_t QuotaCores(const std::string& quota, const std::string& period) {
  std::istringstream quota_stream(quota);
  std::istringstream period_stream(period);
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!(quota_stream >> quota_us) || !(period_stream >> period_us)) return 0;
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int32_t>(std::clamp<int64_t>(quota_us / period_us, 1, 1 << 20));
}

}  // namespace

const CpuFeatures& HostCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

const char* CpuPathName(CpuPath path) {
  switch (path) {
    case CpuPath::kAuto:
      return "auto";
    case CpuPath::kScalar:
      return "scalar";
    case CpuPath::kEmulated16:
      return "emulated16";
    case CpuPath::kAvx2:
      return "avx2";
    case CpuPath::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Result<CpuPath> ResolveCpuPath(CpuPath requested, const CpuFeatures& features) {
  const char* missing = nullptr;
  switch (requested) {
    case CpuPath::kAuto:
      if (features.avx512) return CpuPath::kAvx512;
      return features.avx2 ? CpuPath::kAvx2 : CpuPath::kEmulated16;
    case CpuPath::kScalar:
    case CpuPath::kEmulated16:
      return requested;
    case CpuPath::kAvx2:
      if (features.avx2) return requested;
      missing = "AVX2, FMA and F16C";
      break;
    case CpuPath::kAvx512:
      if (features.avx512) return requested;
      missing = "AVX-512 F, BW, VL and DQ";
      break;
  }
  if (missing == nullptr) {
    return Status(StatusCode::kInvalidArgument,
                  "cpu_path holds the unknown value " +
                      std::to_string(static_cast<int>(requested)) +
                      "; use auto, scalar, emulated16, avx2 or avx512.");
  }
  return Status(StatusCode::kIncompatible,
                std::string("cpu_path ") + CpuPathName(requested) + " needs " + missing +
                    ", which this CPU or its operating system does not offer; use cpu_path auto "
                    "(it gives the same bits).");
}

int32_t CgroupCpuLimit(const std::string& proc_self_cgroup, const std::string& mount) {
  int32_t limit = 0;
  const auto take = [&limit](int32_t cores) {
    if (cores > 0) limit = limit == 0 ? cores : std::min(limit, cores);
  };
  // Calls visit(directory) for the group and each parent. Inside a container the path may belong to
  // the host; its directories are then absent, and the walk still ends at the mount point, which is
  // the container's own group.
  const auto walk = [](const std::string& base, std::string path, auto visit) {
    for (;;) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      visit(base + path + "/");
      if (path.empty()) return;
      path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  };
  std::istringstream lines(proc_self_cgroup);
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      walk(mount, path, [&take](const std::string& directory) {
        std::istringstream words(ReadText(directory + "cpu.max"));
        std::string quota, period;
        if (words >> quota >> period) take(QuotaCores(quota, period));
      });
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      for (const std::string& name : {std::string("cpu"), controllers}) {
        walk(mount + "/" + name, path, [&take](const std::string& directory) {
          take(QuotaCores(ReadText(directory + "cpu.cfs_quota_us"),
                          ReadText(directory + "cpu.cfs_period_us")));
        });
      }
    }
  }
  return limit;
}

int32_t UsableCores() {
  const int32_t cores = PhysicalCoresOfAffinityMask();
  const int32_t limit = CgroupCpuLimit(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup");
  return limit > 0 ? std::min(cores, limit) : cores;
}

}  // namespace slipstream::core
