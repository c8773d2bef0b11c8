// A CPU backend on a tiny model, and sequences with their own blocks to run on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/dispatch.h"
#include "exec_tiny_model.h"

namespace slipstream::exec {

inline constexpr CpuPath kPaths[] = {CpuPath::kScalar, CpuPath::kEmulated16, CpuPath::kAvx2,
                                     CpuPath::kAvx512};

/// A sequence with its own blocks in every group.
struct Sequence {
  std::vector<int32_t> tokens;
  int32_t done = 0;
  std::vector<std::vector<int32_t>> blocks;  ///< [group][block of the sequence]
};

class Session {
 public:
  Session(const TinyModel& model, CpuPath path, int32_t threads)
      : pool_(std::move(*core::ThreadPool::Create(threads))) {
    auto backend = CreateCpuBackend(*pool_, path, model.manifest, model.plan.dump(), model.weights);
    EXPECT_TRUE(backend.ok()) << backend.status().message();
    backend_ = std::move(*backend);
    const std::vector<int64_t> sizes(backend_->kv_groups().size(), kBlocks);
    EXPECT_TRUE(backend_->AllocateKv(sizes).ok());
    free_.resize(sizes.size(), std::vector<int32_t>(kBlocks));
    std::mt19937 rng(5);
    for (auto& list : free_) {
      std::iota(list.begin(), list.end(), 0);
      std::shuffle(list.begin(), list.end(), rng);
    }
  }

  Sequence Add(std::vector<int32_t> tokens) {
    Sequence s;
    s.tokens = std::move(tokens);
    s.blocks.resize(free_.size());
    for (size_t g = 0; g < free_.size(); ++g) {
      for (size_t b = 0; b * 32 < s.tokens.size(); ++b) {
        s.blocks[g].push_back(free_[g].back());
        free_[g].pop_back();
      }
    }
    return s;
  }

  /// Runs the next `rows[i]` tokens of each sequence; logits of the last row of each, concatenated.
  std::vector<float> Step(std::vector<Sequence*> sequences, const std::vector<int32_t>& rows) {
    StepBatch batch;
    batch.block_tables.resize(free_.size());
    int32_t stride = 0;
    for (Sequence* s : sequences) stride = std::max<int32_t>(stride, s->blocks[0].size());
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& s = *sequences[i];
      batch.sequences.push_back({static_cast<int32_t>(i), batch.rows(), rows[i]});
      for (int32_t r = 0; r < rows[i]; ++r) {
        batch.token_ids.push_back(s.tokens[s.done]);
        batch.positions.push_back(s.done++);
      }
      batch.outputs.push_back({batch.rows() - 1, OutputKind::kSample});
      for (size_t g = 0; g < free_.size(); ++g) {
        std::vector<int32_t> line = s.blocks[g];
        line.resize(stride, -1);
        BlockTable& table = batch.block_tables[g];
        table.stride = stride;
        table.blocks.insert(table.blocks.end(), line.begin(), line.end());
      }
    }
    const Result<StepHandle> handle = backend_->Submit(batch);
    EXPECT_TRUE(handle.ok()) << handle.status().message();
    const Result<RowsView> view = backend_->Read(*handle, OutputKind::kLogits);
    EXPECT_TRUE(view.ok());
    EXPECT_EQ(view->rows, static_cast<int32_t>(sequences.size()));
    std::vector<float> logits;
    for (int32_t r = 0; r < view->rows; ++r)
      logits.insert(logits.end(), view->data + r * view->stride,
                    view->data + r * view->stride + view->cols);
    backend_->Release(*handle);
    return logits;
  }

  Backend& backend() { return *backend_; }

 private:
  static constexpr int64_t kBlocks = 64;
  std::unique_ptr<core::ThreadPool> pool_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::vector<int32_t>> free_;
};

inline std::vector<int32_t> DrawTokens(std::mt19937& rng, int32_t n, int32_t vocab) {
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = std::uniform_int_distribution<int32_t>(0, vocab - 1)(rng);
  return tokens;
}

/// The whole sequence in chunks of `chunk`, alone.
inline std::vector<float> Alone(const TinyModel& model, CpuPath path, int32_t threads,
                                const std::vector<int32_t>& tokens, int32_t chunk) {
  Session session(model, path, threads);
  Sequence s = session.Add(tokens);
  std::vector<float> logits;
  while (s.done < static_cast<int32_t>(tokens.size())) {
    logits = session.Step({&s}, {std::min<int32_t>(chunk, tokens.size() - s.done)});
  }
  return logits;
}

}  // namespace slipstream::exec
