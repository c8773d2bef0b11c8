#include "exec/block_access.h"

#include <string>

namespace slipstream::exec {
namespace {

Status Invalid(const std::string& what) { return {StatusCode::kInvalidArgument, what}; }

}  // namespace

Status CheckBlock(const BlockPools& pools, int32_t group, int64_t block) {
  if (pools.in_flight) {
    return Invalid(
        "KV blocks must not be copied, read or written while a step is in flight; release it "
        "first.");
  }
  if (pools.blocks.size() != pools.groups.size())
    return Invalid("The KV pools must be allocated before their blocks are touched.");
  if (group < 0 || group >= static_cast<int64_t>(pools.groups.size())) {
    return Invalid("KV cache group " + std::to_string(group) + " does not exist; the engine has " +
                   std::to_string(pools.groups.size()) + ".");
  }
  if (block < 0 || block >= pools.blocks[group]) {
    return Invalid("Block " + std::to_string(block) + " is outside of the pool of " +
                   std::to_string(pools.blocks[group]) + " blocks of KV cache group " +
                   std::to_string(group) + ".");
  }
  return Status::Ok();
}

Status CheckCopies(const BlockPools& pools, std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    if (!copy.in_device()) {
      return Invalid("A backend copies blocks inside its pool only, not to or from the host tier.");
    }
    for (const int32_t block : {copy.source, copy.target}) {
      if (Status status = CheckBlock(pools, copy.group, block); !status.ok()) return status;
    }
  }
  return Status::Ok();
}

Status CheckImage(const BlockPools& pools, int32_t group, int64_t block, size_t image_bytes) {
  if (Status status = CheckBlock(pools, group, block); !status.ok()) return status;
  const int64_t bytes = pools.groups[group].bytes_per_block;
  if (static_cast<int64_t>(image_bytes) == bytes) return Status::Ok();
  return Invalid("The image of a block of KV cache group " + std::to_string(group) + " has " +
                 std::to_string(bytes) + " bytes, not " + std::to_string(image_bytes) + ".");
}

}  // namespace slipstream::exec
