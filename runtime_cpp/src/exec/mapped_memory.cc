#include "exec/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace slipstream::exec {

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<MappedMemory> MappedMemory::Create(int64_t bytes, const char* what) {
  MappedMemory memory;
  if (bytes <= 0) return memory;
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "Cannot reserve " + std::to_string(bytes) + " bytes for " + what + ": " +
                      std::strerror(errno) + ". Free memory, or use lower limits.");
  }
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  // Fewer TLB misses where the system offers huge pages; a refusal changes nothing.
  (void)madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return memory;
}

}  // namespace slipstream::exec
