#include "executor/teacher_forcing.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <string>

#include "core/resource_exhausted.h"
#include "executor/model.h"

namespace slipstream::executor {

namespace {

Status OutOfMemory() {
  return core::ResourceExhausted(
      "No memory is left for the logits of a sequence. Give fewer tokens or free memory.");
}

}  // namespace

Result<TeacherForcing> TeacherForcing::Create(const Model& model) try {
  Result<std::unique_ptr<exec::Backend>> backend = model.impl()->MakeBackend();
  if (!backend.ok()) return backend.status();
  TeacherForcing forcing(model, *std::move(backend));
  std::vector<int64_t> blocks;
  for (const exec::KvGroupInfo& group : forcing.backend_->kv_groups()) {
    const int32_t count =
        (forcing.limits_.max_seq_len + group.block_tokens - 1) / group.block_tokens;
    blocks.push_back(count);
    exec::BlockTable table{.stride = count, .blocks = std::vector<int32_t>(count)};
    std::iota(table.blocks.begin(), table.blocks.end(), 0);
    forcing.tables_.push_back(std::move(table));
  }
  Status status = forcing.backend_->AllocateKv(blocks);
  if (!status.ok()) return status;
  return forcing;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Result<std::vector<float>> TeacherForcing::Logits(std::span<const TokenId> tokens,
                                                  int32_t chunk_tokens) try {
  if (chunk_tokens < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "chunk_tokens is " + std::to_string(chunk_tokens) + "; it must be at least 1.");
  }
  const int32_t most = std::min(limits_.max_num_tokens, limits_.max_batch_size);
  if (chunk_tokens > most) {
    return Status(StatusCode::kLimitExceeded,
                  "chunk_tokens is " + std::to_string(chunk_tokens) +
                      "; this engine gives logits of at most " + std::to_string(most) +
                      " rows per step (max_batch_size, max_num_tokens).");
  }
  if (tokens.size() > static_cast<size_t>(limits_.max_seq_len)) {
    return Status(StatusCode::kLimitExceeded,
                  "the sequence has " + std::to_string(tokens.size()) +
                      " tokens; this engine's max_seq_len is " +
                      std::to_string(limits_.max_seq_len) +
                      ". Shorten it or build with a larger --max-seq-len.");
  }
  std::vector<float> logits(tokens.size() * limits_.vocab_size);
  exec::StepBatch batch;
  batch.block_tables = tables_;
  for (size_t start = 0; start < tokens.size(); start += chunk_tokens) {
    const auto rows = static_cast<int32_t>(std::min<size_t>(chunk_tokens, tokens.size() - start));
    batch.token_ids.assign(tokens.begin() + start, tokens.begin() + start + rows);
    batch.positions.resize(rows);
    std::iota(batch.positions.begin(), batch.positions.end(), static_cast<int32_t>(start));
    batch.sequences.assign(1, {.slot = 0, .first_row = 0, .num_rows = rows});
    batch.outputs.clear();
    for (int32_t row = 0; row < rows; ++row) {
      batch.outputs.push_back({.row = row, .kind = exec::OutputKind::kLogits});
    }
    Result<exec::StepHandle> step = backend_->Submit(batch);
    if (!step.ok()) return step.status();
    Result<exec::RowsView> view = backend_->Read(*step, exec::OutputKind::kLogits);
    if (view.ok()) {
      for (int32_t row = 0; row < rows; ++row) {
        std::memcpy(logits.data() + (start + row) * limits_.vocab_size,
                    view->data + row * view->stride, sizeof(float) * limits_.vocab_size);
      }
    }
    backend_->Release(*step);
    if (!view.ok()) return view.status();
  }
  return logits;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace slipstream::executor
