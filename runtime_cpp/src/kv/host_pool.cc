#include "kv/host_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/excerpt.h"

namespace slipstream::kv {
namespace {

std::string TemporaryDirectory() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/tmp";
}

// The descriptor of a new file that has no name any more; -1 with errno.
int OpenUnlinked(const std::string& dir) {
  std::string path = dir + "/slipstream-kv-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

// Takes the disk space of the first `bytes` bytes; an errno, 0 when done.
int Allocate(int file, size_t bytes) {
  // Beyond the process' own limit, the system would not only refuse but send a signal that ends it.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) return EFBIG;
  int error;
  do {
    error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

}  // namespace

Result<std::vector<int64_t>> PlanHostSlots(std::span<const GroupSpec> groups,
                                           std::span<const int64_t> blocks, uint64_t bytes) {
  double pool_bytes = 0;
  for (size_t g = 0; g < groups.size(); ++g)
    pool_bytes += static_cast<double>(blocks[g]) * static_cast<double>(groups[g].bytes_per_block);
  const double share = static_cast<double>(bytes) / pool_bytes;
  std::vector<int64_t> slots;
  for (size_t g = 0; g < groups.size(); ++g) {
    const double count = share * static_cast<double>(blocks[g]);
    // Blocks and slots of a group share the numbers of 32 bits.
    constexpr double kMost = std::numeric_limits<int32_t>::max() / 2;
    slots.push_back(static_cast<int64_t>(count < kMost ? count : kMost));
    if (slots.back() > 0) continue;
    const double least = pool_bytes / static_cast<double>(blocks[g]);
    return Status(StatusCode::kInvalidArgument,
                  "host_kv_bytes is " + std::to_string(bytes) +
                      ", which holds no block of KV cache group " + std::to_string(g) +
                      ". Set it to at least " + std::to_string(static_cast<uint64_t>(least) + 1) +
                      ", or to 0 for no host tier.");
  }
  return slots;
}

Result<std::unique_ptr<HostPool>> HostPool::Create(std::span<const GroupSpec> groups,
                                                   std::span<const int64_t> slots,
                                                   const std::string& dir) {
  assert(groups.size() == slots.size());
  std::unique_ptr<HostPool> pool(new HostPool());
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto slot_bytes = static_cast<size_t>(groups[g].bytes_per_block);
    pool->groups_.push_back({pool->bytes_, slot_bytes});
    pool->bytes_ += slot_bytes * static_cast<size_t>(slots[g]);
  }
  const std::string folder = dir.empty() ? TemporaryDirectory() : dir;
  const std::string where = "'" + core::Excerpt(folder) + "' (host_kv_dir)";
  const int file = OpenUnlinked(folder);
  if (file < 0) {
    return Status(StatusCode::kIo, "No file for the host KV tier can be made in " + where + ": " +
                                       std::strerror(errno) + ". Name a folder that is writable.");
  }
  int error = Allocate(file, pool->bytes_);
  if (error == 0) {
    void* memory =
        mmap(nullptr, pool->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) {
      error = errno;
    } else {
      pool->memory_ = static_cast<std::byte*>(memory);
    }
  }
  close(file);  // the mapping keeps it
  if (error != 0) {
    return Status(StatusCode::kResourceExhausted,
                  "The host KV tier needs " + std::to_string(pool->bytes_) + " bytes in " + where +
                      ": " + std::strerror(error) +
                      ". Lower host_kv_bytes or name a folder with more room.");
  }
  return pool;
}

HostPool::~HostPool() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

std::span<std::byte> HostPool::Slot(int32_t group, int32_t slot) {
  const Group& of = groups_[group];
  return {memory_ + of.offset + of.slot_bytes * static_cast<size_t>(slot), of.slot_bytes};
}

}  // namespace slipstream::kv
