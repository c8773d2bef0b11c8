// A StepBatch checked and turned into what the kernels take. Reused step after step: it allocates
// only when created.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/manifest.h"
#include "exec/backend.h"
#include "exec/cpu/kernel_table.h"
#include "exec/cpu/plan.h"

namespace slipstream::exec::cpu {

/// The attention work of one cache group with one number of query heads.
struct AttentionWork {
  int32_t heads = 0;
  std::vector<AttentionItem> items;
  std::vector<int64_t>
      thread_begin;  ///< Items of thread t: [thread_begin[t], thread_begin[t + 1]).
};

class PreparedStep {
 public:
  PreparedStep(const engine::Manifest& manifest, const CpuPlan& plan, int32_t threads);

  /// Checks `batch` against the limits and the pools and prepares it; borrows the batch's vectors
  /// until the step ran. `pool_blocks[g]` is the size of the pool of group g. Errors:
  /// kInvalidArgument, kLimitExceeded.
  Status Prepare(const StepBatch& batch, std::span<const int64_t> pool_blocks);

  int32_t rows() const { return rows_; }
  int32_t output_rows() const { return static_cast<int32_t>(select_.size()); }
  /// Output rows whose logits are wanted; they come first, hidden rows follow.
  int32_t logits_rows() const { return logits_rows_; }
  const int32_t* ids() const { return ids_; }
  const int32_t* positions() const { return positions_; }
  /// Batch row of each output row.
  const int32_t* select() const { return select_.data(); }
  /// Physical block of each row's position in a group.
  const int64_t* row_blocks(int32_t group) const { return row_blocks_[group].data(); }
  const AttentionWork& work(int32_t group) const { return work_[group]; }

 private:
  Status Check(const StepBatch& batch, std::span<const int64_t> pool_blocks) const;
  Status CheckBlocks(const StepBatch& batch, size_t group, int64_t pool_blocks) const;
  void SplitAttention(const StepBatch& batch, int32_t group);

  struct Group {
    int32_t window = 0;
    int32_t kv_heads = 0;
  };
  EngineLimits limits_;
  int32_t max_tokens_;
  int32_t max_outputs_;
  int32_t threads_;
  std::vector<Group> groups_;
  std::vector<AttentionWork> work_;
  std::vector<std::vector<int64_t>> row_blocks_;
  std::vector<int32_t> select_;
  const int32_t* ids_ = nullptr;
  const int32_t* positions_ = nullptr;
  int32_t rows_ = 0;
  int32_t logits_rows_ = 0;
};

}  // namespace slipstream::exec::cpu
