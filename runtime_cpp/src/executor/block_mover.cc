#include "executor/block_mover.h"

#include <algorithm>
#include <cassert>

namespace slipstream::executor {

using core::BlockCopy;
using core::Tier;

Status BlockMover::Copy(std::span<const BlockCopy> copies) {
  while (!copies.empty()) {
    // Runs inside the device go to the backend at once.
    const auto end = std::find_if(copies.begin(), copies.end(),
                                  [](const BlockCopy& copy) { return !copy.in_device(); });
    const size_t inside = static_cast<size_t>(end - copies.begin());
    if (inside > 0) {
      if (Status status = backend_.CopyBlocks(copies.first(inside)); !status.ok()) return status;
      copied_ += static_cast<int64_t>(inside);
    } else if (Status status = Move(copies.front()); !status.ok()) {
      return status;
    }
    copies = copies.subspan(std::max<size_t>(inside, 1));
  }
  return Status::Ok();
}

Status BlockMover::Move(const BlockCopy& copy) {
  assert(host_ != nullptr && copy.from != copy.to);
  const bool out = copy.to == Tier::kHost;
  Status status =
      out ? backend_.ReadBlock(copy.group, copy.source, host_->Slot(copy.group, copy.target))
          : backend_.WriteBlock(copy.group, copy.target, host_->Slot(copy.group, copy.source));
  if (status.ok()) ++(out ? swapped_out_ : swapped_in_);
  return status;
}

}  // namespace slipstream::executor
