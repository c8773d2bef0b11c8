// How large the KV pool may be, and how it is split over the cache groups.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/group_spec.h"
#include "slipstream/engine.h"
#include "slipstream/status.h"

namespace slipstream::executor {

/// Where the operating system tells about memory; tests hand in their own files.
struct MemorySources {
  std::string meminfo = "/proc/meminfo";
  std::string self_cgroup = "/proc/self/cgroup";
  std::string cgroup_mount = "/sys/fs/cgroup";
};

/// Bytes that this process can still take without swapping: MemAvailable, and no more than any
/// memory limit of its cgroup (versions 1 and 2, with all parents) leaves, where cached file pages
/// count as free. 0 when nothing is known.
uint64_t AvailableMemory(const MemorySources& sources = {});

/// Blocks of each group for a pool of `budget_bytes`. At most what max_batch_size sequences of
/// max_seq_len positions hold at once; below that, every group gets the same share of what it would
/// need. kResourceExhausted, with the smallest useful budget, when a group cannot have one block.
Result<std::vector<int64_t>> PlanKvBlocks(std::span<const kv::GroupSpec> groups,
                                          const EngineLimits& limits, uint64_t budget_bytes);

}  // namespace slipstream::executor
