#include "executor/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace slipstream::executor {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;  // "max" is no number
  return std::nullopt;
}

// The number behind `key` in a file of "key value" lines.
uint64_t ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line, word;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    uint64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return 0;
}

// What a cgroup's own limit leaves: limit - (usage - cached file pages).
uint64_t Left(const std::string& folder, const char* limit_file, const char* usage_file,
              const char* cache_key) {
  const std::optional<uint64_t> limit = ReadNumber(folder + limit_file);
  if (!limit) return kUnlimited;
  const uint64_t usage = ReadNumber(folder + usage_file).value_or(0);
  const uint64_t cache = std::min(usage, ReadKey(folder + "/memory.stat", cache_key));
  return *limit - std::min(*limit, usage - cache);
}

uint64_t CgroupLeft(const MemorySources& sources) {
  uint64_t left = kUnlimited;
  std::ifstream file(sources.self_cgroup);
  std::string line;
  while (std::getline(file, line)) {
    // "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    std::istringstream list(controllers);
    bool memory = v2;
    for (std::string name; std::getline(list, name, ',');) memory |= name == "memory";
    if (!memory) continue;
    const std::string mount = sources.cgroup_mount + (v2 ? "" : "/memory");
    // Inside a container the path may name a folder that only the host sees; then the mount itself
    // is our group.
    for (std::string path = line.substr(second + 1);;) {
      const std::string folder = mount + (path == "/" ? "" : path);
      left = std::min(left, v2 ? Left(folder, "/memory.max", "/memory.current", "inactive_file")
                               : Left(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                      "total_inactive_file"));
      if (path.empty() || path == "/") break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return left;
}

}  // namespace

uint64_t AvailableMemory(const MemorySources& sources) {
  return std::min(ReadKey(sources.meminfo, "MemAvailable:") * 1024, CgroupLeft(sources));
}

Result<std::vector<int64_t>> PlanKvBlocks(std::span<const kv::GroupSpec> groups,
                                          const EngineLimits& limits, uint64_t budget_bytes) {
  std::vector<int64_t> most;
  uint64_t most_bytes = 0, least_bytes = 0;
  for (const kv::GroupSpec& group : groups) {
    most.push_back(limits.max_batch_size *
                   kv::PeakBlocks(group, limits.max_seq_len, limits.max_num_tokens));
    most_bytes += static_cast<uint64_t>(most.back()) * group.bytes_per_block;
    least_bytes += group.bytes_per_block;
  }
  if (most_bytes <= budget_bytes) return most;
  if (budget_bytes < least_bytes) {
    return Status(StatusCode::kResourceExhausted,
                  "A KV pool of " + std::to_string(budget_bytes) +
                      " bytes cannot hold one block in every cache group, which takes " +
                      std::to_string(least_bytes) +
                      " bytes. Raise kv_memory_bytes or free memory.");
  }
  // One block each, and of the rest the same share for all.
  const double share = static_cast<double>(budget_bytes - least_bytes) /
                       static_cast<double>(most_bytes - least_bytes);
  std::vector<int64_t> blocks;
  for (const int64_t count : most)
    blocks.push_back(1 + static_cast<int64_t>(share * static_cast<double>(count - 1)));
  return blocks;
}

}  // namespace slipstream::executor
