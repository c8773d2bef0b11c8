// The null backend: outputs depend on what a position sees through its block table, and on nothing
// else.
#include <gtest/gtest.h>

#include <numeric>

#include "exec/null_backend.h"

namespace slipstream::exec {
namespace {

NullBackendConfig Config() {
  NullBackendConfig config;
  config.limits = {256, 4, 64, 50};
  config.groups = {KvGroupInfo{1024, 32, 0}, KvGroupInfo{1024, 32, 8}};
  return config;
}

StepBatch OneSequence(std::vector<int32_t> tokens, int32_t position, std::vector<int32_t> blocks) {
  StepBatch batch;
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), position);
  batch.sequences = {{0, 0, static_cast<int32_t>(tokens.size())}};
  batch.outputs = {{static_cast<int32_t>(tokens.size()) - 1, OutputKind::kSample}};
  batch.block_tables = {{static_cast<int32_t>(blocks.size()), blocks},
                        {static_cast<int32_t>(blocks.size()), blocks}};
  batch.token_ids = std::move(tokens);
  return batch;
}

std::vector<float> Logits(Backend& backend, const StepBatch& batch) {
  const Result<StepHandle> step = backend.Submit(batch);
  EXPECT_TRUE(step.ok()) << step.status().message();
  const RowsView view = *backend.Read(*step, OutputKind::kLogits);
  std::vector<float> out(view.data, view.data + view.rows * view.stride);
  backend.Release(*step);
  return out;
}

TEST(NullBackend, ChunkingAndBlocksDoNotMatterButHistoryDoes) {
  const auto make = [] {
    std::unique_ptr<Backend> backend = std::move(*CreateNullBackend(Config()));
    const int64_t blocks[] = {8, 8};
    EXPECT_TRUE(backend->AllocateKv(blocks).ok());
    return backend;
  };
  std::vector<int32_t> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 3);
  const auto whole = make();
  const std::vector<float> want = Logits(*whole, OneSequence(tokens, 0, {0, 1}));
  EXPECT_EQ(want.size(), 50u);

  const auto chunked = make();
  (void)Logits(*chunked, OneSequence({tokens.begin(), tokens.begin() + 17}, 0, {5, 2}));
  EXPECT_EQ(Logits(*chunked, OneSequence({tokens.begin() + 17, tokens.end()}, 17, {5, 2})), want);

  std::vector<int32_t> other = tokens;
  other[0] = 1;
  EXPECT_NE(Logits(*make(), OneSequence(other, 0, {0, 1})), want);
  // A wrong block, or a prefill that was skipped, shows.
  EXPECT_NE(Logits(*chunked, OneSequence({tokens.back()}, 39, {4, 2})), want);
  EXPECT_EQ(Logits(*chunked, OneSequence({tokens.back()}, 39, {5, 2})), want);
}

TEST(NullBackend, BlocksAreCopiedAndCarried) {
  std::unique_ptr<Backend> backend = std::move(*CreateNullBackend(Config()));
  const BlockCopy early{0, 0, 1};
  EXPECT_EQ(backend->CopyBlocks({&early, 1}).code(), StatusCode::kInvalidArgument) << "no pools";
  const int64_t blocks[] = {8, 8};
  ASSERT_TRUE(backend->AllocateKv(blocks).ok());
  std::vector<int32_t> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 3);
  const std::vector<float> want = Logits(*backend, OneSequence(tokens, 0, {0, 1}));
  // In order: block 4 gets what block 5 got from block 0.
  const BlockCopy copies[] = {{0, 0, 5}, {1, 0, 5}, {0, 5, 4}, {1, 5, 4}};
  ASSERT_TRUE(backend->CopyBlocks(copies).ok());
  std::vector<std::byte> image(1024);
  for (int32_t g = 0; g < 2; ++g) {
    ASSERT_TRUE(backend->ReadBlock(g, 1, image).ok());
    ASSERT_TRUE(backend->WriteBlock(g, 7, image).ok());
  }
  EXPECT_EQ(Logits(*backend, OneSequence({tokens.back()}, 39, {4, 7})), want);
  EXPECT_EQ(backend->ReadBlock(0, 8, image).code(), StatusCode::kInvalidArgument);
}

TEST(NullBackend, ChecksBatchesAsTheCpuBackendDoes) {
  std::unique_ptr<Backend> backend = std::move(*CreateNullBackend(Config()));
  EXPECT_EQ(backend->Submit(OneSequence({1}, 0, {0})).status().code(), StatusCode::kInvalidArgument)
      << "no pools yet";
  const int64_t blocks[] = {8, 8};
  ASSERT_TRUE(backend->AllocateKv(blocks).ok());
  EXPECT_EQ(backend->Submit(OneSequence({50}, 0, {0})).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Submit(OneSequence({1}, 0, {8})).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Submit(OneSequence({1}, 256, std::vector<int32_t>(9, 0))).status().code(),
            StatusCode::kLimitExceeded);
  NullBackendConfig bad = Config();
  bad.limits.vocab_size = 0;
  EXPECT_FALSE(CreateNullBackend(bad).ok());
}

}  // namespace
}  // namespace slipstream::exec
