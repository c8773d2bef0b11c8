// The memory of the host tier: slots for the bytes of KV blocks, in a file that nobody else sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/group_spec.h"
#include "slipstream/status.h"

namespace slipstream::kv {

/// Slots per group that `bytes` pay for, in the proportion in which `blocks` share the pool of the
/// device. kInvalidArgument when that is not one slot for each group.
Result<std::vector<int64_t>> PlanHostSlots(std::span<const GroupSpec> groups,
                                           std::span<const int64_t> blocks, uint64_t bytes);

/// A temporary file, unlinked as soon as it is open and mapped as a whole. The system keeps in
/// memory what is in use and writes the rest to the disk; a crash leaves nothing behind. Not
/// thread-safe.
class HostPool {
 public:
  /// Makes `slots[g]` slots of groups[g].bytes_per_block bytes. All disk space is taken at once, so
  /// that a full disk is an error here (kResourceExhausted) and never a fault later. `dir`: an
  /// existing folder; empty: $TMPDIR or else /tmp. kIo, naming the folder, where no file can be
  /// made in it. Throws std::bad_alloc.
  static Result<std::unique_ptr<HostPool>> Create(std::span<const GroupSpec> groups,
                                                  std::span<const int64_t> slots,
                                                  const std::string& dir);
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  /// The bytes_per_block bytes of a slot that exists.
  std::span<std::byte> Slot(int32_t group, int32_t slot);

 private:
  struct Group {
    size_t offset = 0;
    size_t slot_bytes = 0;
  };
  HostPool() = default;

  std::vector<Group> groups_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace slipstream::kv
