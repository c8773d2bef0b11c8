// Where the bytes of the blocks are: what the KV room needs of a backend to move them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/block_copy.h"
#include "slipstream/status.h"

namespace slipstream::kv {

/// Implemented over the backend. Called between steps only.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  /// Carries out the copies in order.
  virtual Status Copy(std::span<const core::BlockCopy> copies) = 0;
  /// The bytes_per_block bytes of a block.
  virtual Status Read(int32_t group, int32_t block, std::span<std::byte> image) = 0;
  virtual Status Write(int32_t group, int32_t block, std::span<const std::byte> image) = 0;
};

}  // namespace slipstream::kv
