// Carries out the copies that the block manager orders: inside the device, and to and from the host
// tier.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/block_copy.h"
#include "exec/backend.h"
#include "kv/block_store.h"
#include "kv/host_pool.h"

namespace slipstream::executor {

/// `backend` must outlive it. `host` may be null: then nothing may be ordered to or from the host.
/// Called between steps only, from one thread.
class BlockMover : public kv::BlockStore {
 public:
  BlockMover(exec::Backend& backend, std::unique_ptr<kv::HostPool> host)
      : backend_(backend), host_(std::move(host)) {}

  /// After an error, some copies are done and others not: forget what was ordered.
  Status Copy(std::span<const core::BlockCopy> copies) override;
  Status Read(int32_t group, int32_t block, std::span<std::byte> image) override {
    return backend_.ReadBlock(group, block, image);
  }
  Status Write(int32_t group, int32_t block, std::span<const std::byte> image) override {
    return backend_.WriteBlock(group, block, image);
  }

  // Carried out since the start, in blocks.
  int64_t copied() const { return copied_; }
  int64_t swapped_out() const { return swapped_out_; }
  int64_t swapped_in() const { return swapped_in_; }

 private:
  Status Move(const core::BlockCopy& copy);

  exec::Backend& backend_;
  const std::unique_ptr<kv::HostPool> host_;
  int64_t copied_ = 0;
  int64_t swapped_out_ = 0;
  int64_t swapped_in_ = 0;
};

}  // namespace slipstream::executor
