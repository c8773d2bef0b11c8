// Anonymous pages for arenas and KV pools: page-aligned, zero until written, taken from the system
// only when touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/status.h"

namespace slipstream::exec {

class MappedMemory {
 public:
  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  /// `what` names the memory in the message. Error: kResourceExhausted.
  static Result<MappedMemory> Create(int64_t bytes, const char* what);

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace slipstream::exec
