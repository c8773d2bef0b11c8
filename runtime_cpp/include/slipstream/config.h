// Settings of a process (Runtime) and of an Executor. Plain aggregates: fill in what matters, leave
// the rest.
#pragma once

#include <chrono>
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

/// Who may start while others run.
enum class CapacityPolicy : uint8_t {
  /// A request starts when the KV blocks of its longest possible life can be promised to it: what
  /// runs is never preempted.
  kGuaranteedNoEvict = 0,
  /// A request starts when its prompt fits: more run at once. When blocks run out, or a request of
  /// higher priority waits, the last in rank is preempted: it gives its blocks to the cache, waits
  /// again and goes on with identical tokens.
  kMaxUtilization = 1,
};

/// How the token budget of a step goes to the prompts that are not computed yet.
enum class ChunkingPolicy : uint8_t {
  kFirstCome = 0,      ///< The first in rank is filled before the next.
  kEqualProgress = 1,  ///< All advance by the same number of tokens.
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
  /// And beyond this many prompt tokens of waiting requests; 0: no such limit.
  int64_t max_queued_tokens = 0;
  /// And beyond this many bytes that waiting requests hold (prompt ids, stop strings, biases);
  /// 0: no such limit.
  int64_t max_queued_bytes = 0;

  CapacityPolicy capacity = CapacityPolicy::kGuaranteedNoEvict;
  ChunkingPolicy chunking = ChunkingPolicy::kFirstCome;
  /// A waiting request rises by one priority each time it has waited this long; 0: never.
  std::chrono::milliseconds ageing{10000};
  /// Keep the KV of finished requests and of common prefixes for later requests.
  bool prefix_cache = true;
  /// Size of the host tier, a second pool in a temporary file that the system keeps in memory where
  /// it can: cached KV that must leave the first moves there and comes back when it is needed, so
  /// that idle conversations and preempted requests are not computed again. 0: none. The disk space
  /// is taken at once. Needs prefix_cache.
  uint64_t host_kv_bytes = 0;
  /// The folder of that file, which has no name in it; empty: $TMPDIR, or else /tmp. On a tmpfs, as
  /// /tmp often is, it takes memory rather than disk.
  std::string host_kv_dir;
  /// Events of cached KV that wait for Executor::TakeKvEvents; beyond them the oldest are dropped.
  /// 0: none are made.
  int32_t max_kv_events = 0;
  /// Steps that Executor::Iterations remembers; 0: none.
  int32_t iteration_history = 1024;
};

}  // namespace slipstream
