// Settings of a process (Runtime) and of an Executor. Plain aggregates: fill in what matters, leave
// the rest.
#pragma once

#include <cstdint>
#include <string>

namespace slipstream {

/// Which implementation of the CPU kernels to run. All give the same bits.
enum class CpuPath : uint8_t {
  kAuto = 0,        ///< The widest that this CPU has.
  kScalar = 1,      ///< The reference that defines the numerics; slow.
  kEmulated16 = 2,  ///< 16 virtual lanes in plain C++: runs everywhere, proves the wide paths.
  kAvx2 = 3,        ///< AVX2, FMA and F16C.
  kAvx512 = 4,      ///< AVX-512 F, BW, VL and DQ.
};

struct RuntimeConfig {
  /// Worker threads of a step; 0: physical cores of this process' affinity mask.
  int32_t threads = 0;
  /// An unavailable path is an error of Runtime::Create, never a fallback.
  CpuPath cpu_path = CpuPath::kAuto;
};

struct ExecutorConfig {
  /// Size of the KV pool; 0: a quarter of the machine's available memory, at most what the limits
  /// can use.
  uint64_t kv_memory_bytes = 0;
  /// Token budget of one step; 0: the engine's limit. May be lower than it, never higher.
  int32_t max_num_tokens = 0;
  /// Sequences of one step; 0: the engine's limit. May be lower than it, never higher.
  int32_t max_batch_size = 0;
  /// Submit is refused (kResourceExhausted) beyond this many waiting requests.
  int32_t max_queued_requests = 4096;
};

}  // namespace slipstream
