#include "exec/cpu/prepared_step.h"

#include <algorithm>
#include <string>

namespace slipstream::exec::cpu {
namespace {

Status Invalid(const std::string& what) {
  return {StatusCode::kInvalidArgument, "Step batch: " + what + "."};
}

Status Beyond(const std::string& what, int64_t value, int64_t limit) {
  return {StatusCode::kLimitExceeded, "Step batch: " + what + " is " + std::to_string(value) +
                                          ", the limit of this engine is " + std::to_string(limit) +
                                          "."};
}

int32_t FirstPosition(int32_t query, int32_t window) {
  return window > 0 && query >= window ? query - window + 1 : 0;
}

}  // namespace

PreparedStep::PreparedStep(const engine::Manifest& manifest, const CpuPlan& plan, int32_t threads)
    : limits_(manifest.limits),
      max_tokens_(plan.max_tokens),
      max_outputs_(plan.max_outputs),
      threads_(threads) {
  select_.reserve(max_outputs_);
  row_blocks_.resize(manifest.kv_groups.size());
  work_.resize(manifest.kv_groups.size());
  for (const engine::KvGroup& group : manifest.kv_groups)
    groups_.push_back({group.window, group.kv_heads});
  for (std::vector<int64_t>& blocks : row_blocks_) blocks.reserve(max_tokens_);
  for (const PlanStep& step : plan.steps) {
    if (step.op == OpKind::kAttention) work_[step.group].heads = step.heads;
  }
  for (AttentionWork& work : work_) {
    work.items.reserve(static_cast<size_t>(max_tokens_) * work.heads);
    work.thread_begin.resize(threads + 1);
  }
}

Status PreparedStep::Check(const StepBatch& batch, std::span<const int64_t> pool_blocks) const {
  const int64_t rows = static_cast<int64_t>(batch.positions.size());
  if (!batch.embedding_rows.empty())
    return Invalid("embedding rows are given; the CPU backend takes token ids only");
  if (!batch.tree_parents.empty())
    return Invalid("tree parents are given; the CPU backend runs causal chains only");
  for (int32_t slot : batch.adapter_slots) {
    if (slot != -1)
      return Invalid("adapter slot " + std::to_string(slot) +
                     " is asked for; no adapter is loaded");
  }
  if (rows < 1) return Invalid("it has no rows");
  if (rows > max_tokens_) return Beyond("the number of rows", rows, max_tokens_);
  if (static_cast<int64_t>(batch.token_ids.size()) != rows) {
    return Invalid(std::to_string(batch.token_ids.size()) + " token ids for " +
                   std::to_string(rows) + " positions");
  }
  for (int64_t r = 0; r < rows; ++r) {
    const TokenId id = batch.token_ids[r];
    if (id < 0 || id >= limits_.vocab_size) {
      return Invalid("token id " + std::to_string(id) + " in row " + std::to_string(r) +
                     " is outside of the vocabulary of " + std::to_string(limits_.vocab_size));
    }
  }
  if (static_cast<int64_t>(batch.sequences.size()) > limits_.max_batch_size) {
    return Beyond("the number of sequences", static_cast<int64_t>(batch.sequences.size()),
                  limits_.max_batch_size);
  }
  int64_t next_row = 0;
  for (const SequenceSlice& s : batch.sequences) {
    if (s.first_row != next_row || s.num_rows < 1 || s.num_rows > rows - next_row) {
      return Invalid("the sequences do not cover the rows one after the other");
    }
    if (s.slot < 0 || s.slot >= limits_.max_batch_size)
      return Beyond("a sequence slot", s.slot, limits_.max_batch_size);
    for (int32_t i = 0; i < s.num_rows; ++i) {
      const int64_t position = batch.positions[s.first_row + i];
      if (position < 0 || position >= limits_.max_seq_len)
        return Beyond("a position", position, limits_.max_seq_len);
      if (position != int64_t{batch.positions[s.first_row]} + i) {
        return Invalid("the positions of the sequence in slot " + std::to_string(s.slot) +
                       " are not consecutive");
      }
    }
    next_row += s.num_rows;
  }
  if (next_row != rows) return Invalid("the sequences do not cover the rows one after the other");
  if (static_cast<int64_t>(batch.outputs.size()) > max_outputs_) {
    return Beyond("the number of output rows", static_cast<int64_t>(batch.outputs.size()),
                  max_outputs_);
  }
  int32_t previous = 0;
  for (const OutputRow& output : batch.outputs) {
    if (output.row < previous || output.row >= rows)
      return Invalid("the output rows are not ascending rows of the batch");
    previous = output.row;
  }
  if (batch.block_tables.size() != groups_.size()) {
    return Invalid(std::to_string(batch.block_tables.size()) + " block tables for " +
                   std::to_string(groups_.size()) + " cache groups");
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (Status status = CheckBlocks(batch, g, pool_blocks[g]); !status.ok()) return status;
  }
  return Status::Ok();
}

Status PreparedStep::CheckBlocks(const StepBatch& batch, size_t group, int64_t pool_blocks) const {
  const BlockTable& table = batch.block_tables[group];
  if (table.stride < 0 ||
      table.blocks.size() < batch.sequences.size() * static_cast<size_t>(table.stride)) {
    return Invalid("the block table of cache group " + std::to_string(group) +
                   " is smaller than sequences * stride");
  }
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceSlice& slice = batch.sequences[s];
    const int32_t first_query = batch.positions[slice.first_row];
    const int32_t first = FirstPosition(first_query, groups_[group].window) / kKvBlockTokens;
    const int32_t last = (first_query + slice.num_rows - 1) / kKvBlockTokens;
    if (last >= table.stride) {
      return Invalid("the block table of the sequence in slot " + std::to_string(slice.slot) +
                     " ends before its last position");
    }
    for (int32_t b = first; b <= last; ++b) {
      const int32_t block = table.blocks[s * table.stride + b];
      if (block < 0 || block >= pool_blocks) {
        return Invalid("block " + std::to_string(block) + " of the sequence in slot " +
                       std::to_string(slice.slot) + " is outside of the pool of " +
                       std::to_string(pool_blocks) + " blocks");
      }
    }
  }
  return Status::Ok();
}

Status PreparedStep::Prepare(const StepBatch& batch, std::span<const int64_t> pool_blocks) {
  if (Status status = Check(batch, pool_blocks); !status.ok()) return status;
  rows_ = batch.rows();
  ids_ = batch.token_ids.data();
  positions_ = batch.positions.data();
  select_.clear();
  for (const OutputRow& output : batch.outputs) {
    if (output.kind != OutputKind::kHidden) select_.push_back(output.row);
  }
  logits_rows_ = static_cast<int32_t>(select_.size());
  for (const OutputRow& output : batch.outputs) {
    if (output.kind == OutputKind::kHidden) select_.push_back(output.row);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockTable& table = batch.block_tables[g];
    row_blocks_[g].clear();
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
      const SequenceSlice& slice = batch.sequences[s];
      for (int32_t i = 0; i < slice.num_rows; ++i) {
        const int32_t position = batch.positions[slice.first_row + i];
        row_blocks_[g].push_back(table.blocks[s * table.stride + position / kKvBlockTokens]);
      }
    }
    SplitAttention(batch, static_cast<int32_t>(g));
  }
  return Status::Ok();
}

void PreparedStep::SplitAttention(const StepBatch& batch, int32_t group) {
  AttentionWork& work = work_[group];
  work.items.clear();
  if (work.heads == 0) return;
  const int32_t kv_heads = groups_[group].kv_heads;
  const int32_t shared = work.heads / kv_heads;
  int32_t heads = std::min(shared, kMaxQueryTile);
  // Few sequences: rather read a KV head twice than leave threads without work.
  const int64_t tiles = int64_t{rows_} * work.heads / kMaxQueryTile;
  if (threads_ > 1 && std::max<int64_t>(tiles, static_cast<int64_t>(batch.sequences.size()) *
                                                   kv_heads) < 2 * threads_)
    heads = 1;
  const int32_t rows_per_tile = kMaxQueryTile / heads;
  const BlockTable& table = batch.block_tables[group];
  int64_t total = 0;
  const auto cost = [&](const AttentionItem& item) {
    const int64_t last = item.position + (item.row_end - item.row_begin) - 1;
    const int64_t context = last + 1 - FirstPosition(item.position, groups_[group].window);
    return (context + 64) * (item.row_end - item.row_begin) * (item.head_end - item.head_begin);
  };
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceSlice& slice = batch.sequences[s];
    for (int32_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
      for (int32_t h = 0; h < shared; h += heads) {
        for (int32_t r = 0; r < slice.num_rows; r += rows_per_tile) {
          AttentionItem item;
          item.row_begin = slice.first_row + r;
          item.row_end = slice.first_row + std::min(slice.num_rows, r + rows_per_tile);
          item.head_begin = kv_head * shared + h;
          item.head_end = kv_head * shared + std::min(shared, h + heads);
          item.position = batch.positions[item.row_begin];
          item.table = table.blocks.data() + s * table.stride;
          total += cost(item);
          work.items.push_back(item);
        }
      }
    }
  }
  // Contiguous runs of items with about equal cost.
  int64_t seen = 0;
  size_t next = 0;
  for (int32_t t = 0; t < threads_; ++t) {
    work.thread_begin[t] = static_cast<int64_t>(next);
    const int64_t until = total * (t + 1) / threads_;
    while (next < work.items.size() && seen + cost(work.items[next]) / 2 < until)
      seen += cost(work.items[next++]);
  }
  work.thread_begin[threads_] = static_cast<int64_t>(work.items.size());
}

}  // namespace slipstream::exec::cpu
