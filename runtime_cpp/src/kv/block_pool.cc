#include "kv/block_pool.h"

#include <cassert>

namespace slipstream::kv {

BlockPool::BlockPool(int64_t blocks) : references_(blocks, 0), free_(blocks) {
  for (int64_t i = 0; i < blocks; ++i) free_[i] = static_cast<int32_t>(blocks - 1 - i);
}

std::optional<int32_t> BlockPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[block] = 1;
  return block;
}

void BlockPool::AddReference(int32_t block) {
  assert(references_[block] > 0);
  ++references_[block];
}

bool BlockPool::Release(int32_t block) {
  assert(references_[block] > 0);
  if (--references_[block] > 0) return false;
  free_.push_back(block);
  return true;
}

}  // namespace slipstream::kv
