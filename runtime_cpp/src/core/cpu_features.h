// What this machine's CPU can run, and how many cores of it this process may use.
#pragma once

#include <cstdint>
#include <string>

#include "slipstream/config.h"
#include "slipstream/status.h"

namespace slipstream::core {

/// Instruction sets that both the CPU and the operating system (saved registers) support.
struct CpuFeatures {
  bool avx2 = false;    ///< AVX2, FMA and F16C.
  bool avx512 = false;  ///< AVX-512 F, BW, VL and DQ; implies avx2.
};

/// Detected once; thread-safe.
const CpuFeatures& HostCpuFeatures();

/// "auto", "scalar", "emulated16", "avx2" or "avx512".
const char* CpuPathName(CpuPath path);

/// Turns kAuto into the widest path of `features`. Error: kIncompatible when an explicit path is
/// not available there.
Result<CpuPath> ResolveCpuPath(CpuPath requested, const CpuFeatures& features = HostCpuFeatures());

/// Physical cores of this process' affinity mask, at most the CPU quota of its cgroup (rounded
/// down), at least 1.
int32_t UsableCores();

/// Whole cores that the quotas of a cgroup and of its parents allow; 0 when there is no quota.
/// Takes the text of /proc/self/cgroup and the mount point (usually /sys/fs/cgroup); reads versions
/// 1 and 2.
int32_t CgroupCpuLimit(const std::string& proc_self_cgroup, const std::string& mount);

}  // namespace slipstream::core
