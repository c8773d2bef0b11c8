#include "kv/block_pool.h"

#include <cassert>

namespace slipstream::kv {

BlockPool::BlockPool(int64_t blocks) : state_(blocks), free_(blocks) {
  for (int64_t i = 0; i < blocks; ++i) free_[i] = static_cast<int32_t>(blocks - 1 - i);
}

void BlockPool::Count(int32_t block, int32_t references, int32_t reserving) {
  State& state = state_[block];
  pinned_ -= state.references > 0;
  secured_ -= secured(block);
  state.references += references;
  state.reserving += reserving;
  reserving_references_ += reserving;
  pinned_ += state.references > 0;
  secured_ += secured(block);
}

std::optional<int32_t> BlockPool::Allocate(bool reserving) {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  Count(block, 1, reserving);
  return block;
}

void BlockPool::AddReference(int32_t block, bool reserving) {
  assert(state_[block].references > 0 || state_[block].cached);
  Count(block, 1, reserving);
}

bool BlockPool::Release(int32_t block, bool reserving) {
  assert(state_[block].references > 0 && state_[block].reserving >= reserving);
  Count(block, -1, -static_cast<int32_t>(reserving));
  if (state_[block].references > 0) return false;
  if (!state_[block].cached) free_.push_back(block);
  return true;
}

void BlockPool::SetCached(int32_t block, bool cached) {
  State& state = state_[block];
  if (state.cached == cached) return;
  assert(state.references > 0 || state.cached);
  state.cached = cached;
  cached_ += cached ? 1 : -1;
  if (!cached && state.references == 0) free_.push_back(block);
}

}  // namespace slipstream::kv
