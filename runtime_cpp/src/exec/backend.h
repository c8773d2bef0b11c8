// The seam between the executor and whatever runs a step: the CPU plan executor, a TensorRT engine,
// or a null backend in scheduler tests. One step is Submit -> (Sample | Read) -> Release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/block_copy.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::exec {

/// What is wanted of an output row. Rows that are not listed in StepBatch::outputs produce nothing
/// (plain prefill rows).
enum class OutputKind : uint8_t {
  kSample = 0,  ///< Logits are made and a token will be sampled from them.
  kLogits = 1,  ///< Logits will be read.
  kHidden = 2,  ///< The final hidden state (after the last norm) will be read; no logits are made
                ///< for a batch of these only.
};

struct OutputRow {
  int32_t row = 0;  ///< Row of StepBatch::token_ids.
  OutputKind kind = OutputKind::kSample;
};

/// The rows of one sequence: contiguous in the batch, at ascending consecutive positions.
struct SequenceSlice {
  int32_t slot = 0;       ///< Stable slot of the sequence, 0 <= slot < max_batch_size.
  int32_t first_row = 0;  ///< Its first row in token_ids.
  int32_t num_rows = 0;
};

/// Physical blocks of the sequences of a step in one cache group. Entry [s * stride + b] holds the
/// positions [b * block_tokens, (b + 1) * block_tokens) of sequences[s]; -1 where a window group
/// has freed the block.
struct BlockTable {
  int32_t stride = 0;
  std::vector<int32_t> blocks;  ///< size sequences.size() * stride
};

/// The ragged input of a step. Rows are ordered by sequence; `positions` are absolute.
struct StepBatch {
  std::vector<TokenId> token_ids;  ///< [rows]
  std::vector<float>
      embedding_rows;  ///< Instead of ids, [rows, hidden]; empty on backends that take ids only.
  std::vector<int32_t> positions;  ///< [rows]
  std::vector<SequenceSlice> sequences;
  std::vector<BlockTable> block_tables;  ///< One per cache group, in manifest order.
  std::vector<OutputRow> outputs;        ///< Ascending by row; at most max_batch_size.
  std::vector<int32_t> adapter_slots;    ///< [rows], -1 = base model; empty = all base.
  std::vector<int32_t>
      tree_parents;  ///< [rows], row index of the parent of a drafted row; empty = causal chain.
  int32_t rows() const { return static_cast<int32_t>(positions.size()); }
};

using StepHandle = uint64_t;
using core::BlockCopy;

/// Settings of one row for backends that sample themselves.
struct RowSampling {
  float temperature = 0.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  uint64_t position = 0;  ///< Absolute position of the token to be drawn: the RNG counter.
};
struct SamplingBatch {
  std::vector<RowSampling> rows;  ///< One per output row of kind kSample, in order.
};
struct SampledTokens {
  std::vector<TokenId> tokens;
};

/// f32 rows of the last step, valid until Release. Row r starts at data + r * stride.
struct RowsView {
  const float* data = nullptr;
  int32_t rows = 0;    ///< One per StepBatch::outputs entry of a fitting kind, in order.
  int32_t cols = 0;    ///< vocab_size or hidden_size.
  int64_t stride = 0;  ///< In floats, >= cols.
};

/// A KV pool of one cache group as the backend laid it out.
struct KvGroupInfo {
  int64_t bytes_per_block = 0;
  int32_t block_tokens = 32;
  int32_t window = 0;  ///< 0: full attention.
};

/// Runs steps. Calls come from one thread at a time (the executor's loop).
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::span<const KvGroupInfo> kv_groups() const = 0;
  /// Allocates the pool of each group: blocks[g] blocks. Called once, before the first Submit.
  virtual Status AllocateKv(std::span<const int64_t> blocks) = 0;

  /// Starts a step and returns, where the backend can, while it is computed. The batch must stay as
  /// it is until Release. At most one step is in flight. Errors leave the backend usable:
  /// kInvalidArgument for a malformed batch.
  virtual Result<StepHandle> Submit(const StepBatch& batch) = 0;

  /// True when Sample is implemented by the backend; otherwise, and for requests that need more
  /// than RowSampling can say, the executor samples on the host from Read(kLogits).
  virtual bool samples() const { return false; }
  virtual Result<SampledTokens> Sample(StepHandle step, const SamplingBatch& sampling);

  /// Waits for the step and gives its logits (kind kSample and kLogits, in order) or hidden rows
  /// (kHidden).
  virtual Result<RowsView> Read(StepHandle step, OutputKind kind) = 0;
  /// Waits until the step is computed; its error, if it failed. Nothing to wait for where Submit
  /// computes.
  virtual Status Wait(StepHandle) { return Status::Ok(); }
  /// Waits for the step and forgets it.
  virtual void Release(StepHandle step) = 0;

  // Whole KV blocks, in the layout of this backend. Not while a step is in flight, that is between
  // Submit and Release. kInvalidArgument then, before AllocateKv, for a group or block that does
  // not exist, and for a span of another size than the group's bytes_per_block.

  /// Carries out the copies in order: a later one may read what an earlier one wrote. Checks all
  /// before the first.
  virtual Status CopyBlocks(std::span<const BlockCopy> copies) = 0;
  /// The bytes of a block.
  virtual Status ReadBlock(int32_t group, int32_t block, std::span<std::byte> image) = 0;
  /// Overwrites a block with what ReadBlock gave, of this or another pool of the same engine.
  virtual Status WriteBlock(int32_t group, int32_t block, std::span<const std::byte> image) = 0;
};

}  // namespace slipstream::exec
