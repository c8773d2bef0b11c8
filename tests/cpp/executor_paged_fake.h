// A language model without weights on a real paged cache, for tests of the engine loop.
//
// Every step writes (token, position) into the cells that the block tables name, and makes the
// logits of an output row by hashing the tokens that it reads back through the tables: a wrong,
// freed or shared block changes the answer or fails the test. The same logits come from FakeLogits
// without any cache: the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "decode/sampler.h"
#include "exec/backend.h"

namespace slipstream::executor {

constexpr int32_t kFakeVocab = 48;

inline uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/// Logits after `history`, as a model with one full group and one group of `window` positions would
/// give.
inline std::vector<float> FakeLogits(std::span<const TokenId> history, int32_t window,
                                     int32_t vocab) {
  uint64_t hash = 1;
  for (const TokenId token : history) hash = Mix(hash, token);
  const size_t first = history.size() > static_cast<size_t>(window) ? history.size() - window : 0;
  for (const TokenId token : history.subspan(first)) hash = Mix(hash, token + 1000);
  std::vector<float> logits(vocab);
  for (int32_t i = 0; i < vocab; ++i) logits[i] = static_cast<float>(Mix(hash, i + 7) % 97) / 16.0f;
  return logits;
}

struct FakeOptions {
  int32_t block_tokens = 4;
  int32_t window = 6;
  int32_t vocab = kFakeVocab;
  int32_t max_batch_size = 64;
  int32_t max_num_tokens = 512;
  TokenId nan_token = -1;       ///< A history that ends with it gives NaN.
  TokenId fail_token = -1;      ///< A step that holds it fails.
  std::vector<TokenId> script;  ///< Not empty: position p is script[p - 1] for sure.
  bool samples = false;         ///< Sample on the backend.
};

/// A gate that tests close to hold the loop inside a step.
class Gate {
 public:
  void Close() { Set(false); }
  void Open() { Set(true); }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  /// Waits until the loop stands at the closed gate.
  void WaitForArrival() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t before = open_ ? arrived_ : 0;
    changed_.wait(lock, [&] { return arrived_ > before; });
  }

 private:
  void Set(bool open) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    if (!open) arrived_ = 0;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int64_t arrived_ = 0;
};

/// What a test watches of a fake that an executor owns.
struct FakeWatch {
  Gate gate;
  std::atomic<int64_t> steps{0};
  std::atomic<int64_t> rows{0};
  std::atomic<int32_t> most_sequences{0};
  std::atomic<int32_t> most_rows{0};
  std::atomic<int32_t> inside{0};
  std::atomic<int64_t> copies{0};
  std::atomic<bool> fail_copies{false};  ///< The next call of CopyBlocks fails.
  std::atomic<bool> fail_reads{false};   ///< The next call of ReadBlock fails.
  std::atomic<bool> fail_writes{false};  ///< The next call of WriteBlock fails.
};

class PagedFake : public exec::Backend {
 public:
  PagedFake(const FakeOptions& options, std::shared_ptr<FakeWatch> watch)
      : options_(options),
        watch_(std::move(watch)),
        groups_{{.bytes_per_block = 64, .block_tokens = options.block_tokens, .window = 0},
                {.bytes_per_block = 32,
                 .block_tokens = options.block_tokens,
                 .window = options.window}} {}

  std::span<const exec::KvGroupInfo> kv_groups() const override { return groups_; }

  Status AllocateKv(std::span<const int64_t> blocks) override {
    for (const int64_t count : blocks) cells_.emplace_back(count * options_.block_tokens);
    return Status::Ok();
  }

  /// Computes in Wait, so that whatever the loop does while a step is in flight and should not
  /// changes the answer.
  Result<exec::StepHandle> Submit(const exec::StepBatch& batch) override {
    EXPECT_EQ(watch_->inside.exchange(1), 0) << "a step began before the last one was released";
    batch_ = &batch;
    submitted_ = batch.token_ids;
    rows_.clear();
    kinds_.clear();
    return exec::StepHandle{1};
  }

  Status Wait(exec::StepHandle) override {
    if (batch_ == nullptr) return Status::Ok();
    const exec::StepBatch& batch = *std::exchange(batch_, nullptr);
    watch_->gate.Pass();
    EXPECT_EQ(batch.token_ids, submitted_) << "the batch changed while the step was in flight";
    Check(batch);
    ++watch_->steps;
    watch_->rows += batch.rows();
    watch_->most_rows = std::max<int32_t>(watch_->most_rows, batch.rows());
    watch_->most_sequences =
        std::max<int32_t>(watch_->most_sequences, static_cast<int32_t>(batch.sequences.size()));
    for (const TokenId token : batch.token_ids) {
      if (token == options_.fail_token)
        return Status(StatusCode::kInternal, "the fake was told to fail");
    }
    for (size_t s = 0; s < batch.sequences.size(); ++s) Write(batch, s);
    size_t s = 0;
    for (const exec::OutputRow& output : batch.outputs) {
      while (output.row >= batch.sequences[s].first_row + batch.sequences[s].num_rows) ++s;
      kinds_.push_back(output.kind);
      rows_.push_back(Logits(batch, s, batch.positions[output.row]));
    }
    return Status::Ok();
  }

  bool samples() const override { return options_.samples; }

  Result<exec::SampledTokens> Sample(exec::StepHandle,
                                     const exec::SamplingBatch& sampling) override {
    EXPECT_EQ(sampling.rows.size(), static_cast<size_t>(std::count(kinds_.begin(), kinds_.end(),
                                                                   exec::OutputKind::kSample)));
    exec::SampledTokens sampled;
    decode::Sampler sampler(core::ScalarRowMath());
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (kinds_[r] != exec::OutputKind::kSample) continue;
      const exec::RowSampling& row = sampling.rows[sampled.tokens.size()];
      const auto token = sampler.Sample(
          rows_[r], {row.temperature, row.top_k, row.top_p, row.min_p, row.seed, row.position});
      if (!token.ok()) return token.status();
      sampled.tokens.push_back(*token);
    }
    return sampled;
  }

  // Padding columns hold what would win every draw.
  Result<exec::RowsView> Read(exec::StepHandle, exec::OutputKind kind) override {
    EXPECT_NE(kind, exec::OutputKind::kHidden);
    const int32_t cols = options_.vocab + 5;
    const int64_t stride = cols + 3;
    flat_.assign(rows_.size() * stride, std::numeric_limits<float>::infinity());
    for (size_t r = 0; r < rows_.size(); ++r)
      std::copy(rows_[r].begin(), rows_[r].end(), flat_.begin() + r * stride);
    return exec::RowsView{flat_.data(), static_cast<int32_t>(rows_.size()), cols, stride};
  }

  void Release(exec::StepHandle) override { watch_->inside = 0; }

  Status CopyBlocks(std::span<const exec::BlockCopy> copies) override {
    EXPECT_EQ(watch_->inside, 0) << "blocks were copied inside a step";
    if (watch_->fail_copies.exchange(false))
      return Status(StatusCode::kInternal, "the fake was told to fail");
    for (const exec::BlockCopy& copy : copies) {
      std::copy_n(Block(copy.group, copy.source), options_.block_tokens,
                  Block(copy.group, copy.target));
    }
    watch_->copies += static_cast<int64_t>(copies.size());
    return Status::Ok();
  }

  // A token and its position, two bytes each: the smallest group has four bytes per position.
  Status ReadBlock(int32_t group, int32_t block, std::span<std::byte> image) override {
    EXPECT_EQ(watch_->inside, 0) << "a block was read inside a step";
    if (watch_->fail_reads.exchange(false))
      return Status(StatusCode::kInternal, "the fake was told to fail");
    EXPECT_EQ(static_cast<int64_t>(image.size()), groups_[group].bytes_per_block);
    for (int32_t i = 0; i < options_.block_tokens; ++i) {
      const Cell& cell = Block(group, block)[i];
      const int16_t pair[] = {static_cast<int16_t>(cell.token),
                              static_cast<int16_t>(cell.position)};
      std::memcpy(image.data() + i * sizeof(pair), pair, sizeof(pair));
    }
    return Status::Ok();
  }

  Status WriteBlock(int32_t group, int32_t block, std::span<const std::byte> image) override {
    EXPECT_EQ(watch_->inside, 0) << "a block was written inside a step";
    if (watch_->fail_writes.exchange(false))
      return Status(StatusCode::kInternal, "the fake was told to fail");
    EXPECT_EQ(static_cast<int64_t>(image.size()), groups_[group].bytes_per_block);
    for (int32_t i = 0; i < options_.block_tokens; ++i) {
      int16_t pair[2];
      std::memcpy(pair, image.data() + i * sizeof(pair), sizeof(pair));
      Block(group, block)[i] = {pair[0], pair[1]};
    }
    return Status::Ok();
  }

 private:
  struct Cell {
    TokenId token = -1;
    int32_t position = -1;
  };

  void Check(const exec::StepBatch& batch) const {
    EXPECT_GT(batch.rows(), 0);
    EXPECT_LE(batch.rows(), options_.max_num_tokens);
    EXPECT_LE(batch.sequences.size(), static_cast<size_t>(options_.max_batch_size));
    EXPECT_EQ(batch.token_ids.size(), batch.positions.size());
    EXPECT_EQ(batch.block_tables.size(), groups_.size());
    int32_t row = 0;
    std::set<int32_t> slots;
    for (const exec::SequenceSlice& slice : batch.sequences) {
      EXPECT_EQ(slice.first_row, row);
      EXPECT_GT(slice.num_rows, 0);
      EXPECT_TRUE(slice.slot >= 0 && slice.slot < options_.max_batch_size);
      EXPECT_TRUE(slots.insert(slice.slot).second) << "slot twice in a step";
      for (int32_t i = 1; i < slice.num_rows; ++i)
        EXPECT_EQ(batch.positions[row + i], batch.positions[row] + i);
      row += slice.num_rows;
    }
    EXPECT_EQ(row, batch.rows());
    EXPECT_LE(batch.outputs.size(), static_cast<size_t>(options_.max_batch_size));
    for (size_t i = 1; i < batch.outputs.size(); ++i)
      EXPECT_GT(batch.outputs[i].row, batch.outputs[i - 1].row);
    for (const exec::BlockTable& table : batch.block_tables) {
      EXPECT_EQ(table.blocks.size(), batch.sequences.size() * table.stride);
      // Sequences may share what they read, never what one of them writes.
      std::map<int32_t, int32_t> holders;
      for (const int32_t block : table.blocks) ++holders[block];
      for (size_t s = 0; s < batch.sequences.size(); ++s) {
        const exec::SequenceSlice& slice = batch.sequences[s];
        for (int32_t i = 0; i < slice.num_rows; ++i) {
          const int32_t logical = batch.positions[slice.first_row + i] / options_.block_tokens;
          if (logical >= table.stride) continue;  // reported where it is read
          const int32_t block = table.blocks[s * table.stride + logical];
          EXPECT_EQ(holders[block], 1) << "block " << block << " is shared and written";
        }
      }
    }
  }

  Cell* Block(int32_t group, int32_t block) {
    return cells_[group].data() + static_cast<int64_t>(block) * options_.block_tokens;
  }

  Cell* At(const exec::StepBatch& batch, size_t g, size_t s, int32_t position) {
    const exec::BlockTable& table = batch.block_tables[g];
    const int32_t logical = position / options_.block_tokens;
    if (logical >= table.stride) {
      ADD_FAILURE() << "no table entry for position " << position;
      return nullptr;
    }
    const int32_t block = table.blocks[s * table.stride + logical];
    const int64_t cell = int64_t{block} * options_.block_tokens + position % options_.block_tokens;
    if (block < 0 || cell >= static_cast<int64_t>(cells_[g].size())) {
      ADD_FAILURE() << "block " << block << " of group " << g << " for position " << position;
      return nullptr;
    }
    return &cells_[g][cell];
  }

  void Write(const exec::StepBatch& batch, size_t s) {
    const exec::SequenceSlice& slice = batch.sequences[s];
    for (int32_t row = slice.first_row; row < slice.first_row + slice.num_rows; ++row) {
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (Cell* cell = At(batch, g, s, batch.positions[row])) {
          *cell = {batch.token_ids[row], batch.positions[row]};
        }
      }
    }
  }

  std::vector<float> Logits(const exec::StepBatch& batch, size_t s, int32_t position) {
    std::vector<TokenId> history(position + 1, -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int32_t first = g == 0 ? 0 : std::max(0, position - options_.window + 1);
      for (int32_t p = first; p <= position; ++p) {
        const Cell* cell = At(batch, g, s, p);
        if (cell == nullptr) continue;
        EXPECT_EQ(cell->position, p) << "group " << g << " lost a position";
        if (g == 0) history[p] = cell->token;
        EXPECT_EQ(history[p], cell->token) << "the groups disagree";
      }
    }
    std::vector<float> logits = FakeLogits(history, options_.window, options_.vocab);
    if (history.back() == options_.nan_token) logits[1] = std::numeric_limits<float>::quiet_NaN();
    if (static_cast<size_t>(position) < options_.script.size())
      logits[options_.script[position]] = 1000.0f;
    return logits;
  }

  const FakeOptions options_;
  const std::shared_ptr<FakeWatch> watch_;
  const std::vector<exec::KvGroupInfo> groups_;
  std::vector<std::vector<Cell>> cells_;
  const exec::StepBatch* batch_ = nullptr;  // submitted, not yet computed
  std::vector<TokenId> submitted_;          // its token ids
  std::vector<std::vector<float>> rows_;
  std::vector<exec::OutputKind> kinds_;  // of rows_
  std::vector<float> flat_;
};

}  // namespace slipstream::executor
