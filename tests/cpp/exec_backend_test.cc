// The CPU backend end to end on a tiny model: against a naive evaluation, and bit for bit over
// paths, threads and chunks.
#include "exec_backend_session.h"

namespace slipstream::exec {
namespace {

TEST(CpuBackend, AgreesWithTheNaiveEvaluation) {
  for (core::DType type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16}) {
    for (bool plain : {false, true}) {
      TinyConfig config;
      config.weights = type;
      if (plain) {  // partial rotation, no bias, one KV head per head, sizes that are multiples of
                    // 16
        config.rotary_dim = 6;
        config.bias = false;
        config.kv_heads = 6;
        config.hidden = 48;
        config.mlp = 64;
      }
      const TinyModel model(config);
      std::mt19937 rng(3);
      const std::vector<int32_t> tokens = DrawTokens(rng, 90, config.vocab);
      const std::vector<double> want = model.Naive(tokens);
      const std::vector<float> got = Alone(model, CpuPath::kScalar, 1, tokens, 64);
      const auto [low, high] = std::minmax_element(want.begin(), want.end());
      for (int32_t i = 0; i < config.vocab; ++i)
        EXPECT_NEAR(got[i], want[i], 1e-5 * (*high - *low)) << core::DTypeName(type) << " " << i;
    }
  }
}

TEST(CpuBackend, OneSetOfBitsOverPathsThreadsAndChunks) {
  for (core::DType kv :
       {core::DType::kF32, core::DType::kF16, core::DType::kBF16, core::DType::kInt8}) {
    TinyConfig config;
    config.kv = kv;
    const TinyModel model(config);
    std::mt19937 rng(4);
    const std::vector<int32_t> tokens = DrawTokens(rng, 300, config.vocab);
    const std::vector<float> want = Alone(model, CpuPath::kScalar, 1, tokens, 64);
    for (CpuPath path : kPaths) {
      if (!KernelsOf(path).ok()) continue;
      for (int32_t threads = 1; threads <= 4; ++threads) {
        const int32_t chunk = std::uniform_int_distribution<int32_t>(1, 64)(rng);
        const std::vector<float> got = Alone(model, path, threads, tokens, chunk);
        ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0)
            << (*KernelsOf(path))->name << " threads " << threads << " chunk " << chunk << " kv "
            << core::DTypeName(kv);
      }
    }
  }
}

// A prefix whose blocks are copied, or carried away and back, continues with the same bits.
TEST(CpuBackend, CopiedAndCarriedBlocksContinueWithTheSameBits) {
  for (core::DType kv : {core::DType::kF32, core::DType::kInt8}) {
    TinyConfig config;
    config.kv = kv;
    const TinyModel model(config);
    std::mt19937 rng(9);
    const std::vector<int32_t> tokens = DrawTokens(rng, 75, config.vocab);
    const std::vector<float> want = Alone(model, CpuPath::kScalar, 2, tokens, 50);
    Session session(model, CpuPath::kScalar, 2);
    Backend& backend = session.backend();
    Sequence first = session.Add(tokens);
    (void)session.Step({&first}, {50});
    Sequence copied = session.Add(tokens), carried = session.Add(tokens);
    copied.done = carried.done = 50;
    const auto groups = static_cast<int32_t>(backend.kv_groups().size());
    for (int32_t g = 0; g < groups; ++g) {
      for (int32_t b = 0; b < 2; ++b) {
        const BlockCopy copy{g, first.blocks[g][b], copied.blocks[g][b]};
        ASSERT_TRUE(backend.CopyBlocks({&copy, 1}).ok());
        std::vector<std::byte> image(backend.kv_groups()[g].bytes_per_block);
        ASSERT_TRUE(backend.ReadBlock(g, first.blocks[g][b], image).ok());
        ASSERT_TRUE(backend.WriteBlock(g, carried.blocks[g][b], image).ok());
      }
    }
    for (Sequence* s : {&copied, &carried, &first}) {
      const std::vector<float> got = session.Step({s}, {25});
      ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0);
    }
  }
}

TEST(CpuBackend, Int8CacheStaysNearTheExactOne) {
  TinyConfig config;
  const TinyModel exact(config);
  config.kv = core::DType::kInt8;
  const TinyModel model(config);
  std::mt19937 rng(8);
  const std::vector<int32_t> tokens = DrawTokens(rng, 90, config.vocab);
  const std::vector<double> want = model.Naive(tokens);
  const std::vector<double> f32 = exact.Naive(tokens);
  const std::vector<float> got = Alone(model, CpuPath::kScalar, 1, tokens, 64);
  const auto [low, high] = std::minmax_element(want.begin(), want.end());
  double to_int8 = 0;
  double to_f32 = 0;
  for (int32_t i = 0; i < config.vocab; ++i) {
    to_int8 = std::max(to_int8, std::fabs(got[i] - want[i]));
    to_f32 = std::max(to_f32, std::fabs(got[i] - f32[i]));
  }
  // A value next to the middle of two steps may round the other way in double precision.
  EXPECT_LT(to_int8, 2e-3 * (*high - *low));
  EXPECT_LT(to_f32, 3e-2 * (*high - *low));
  EXPECT_GT(to_f32, 1e-6 * (*high - *low)) << "nothing was rounded";
}

TEST(CpuBackend, DrawnMixesEqualEachRequestAlone) {
  TinyConfig int8;
  int8.kv = core::DType::kInt8;
  const TinyModel models[] = {TinyModel(TinyConfig{}), TinyModel(int8)};
  std::mt19937 rng(6);
  const auto draw = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng);
  };
  for (int round = 0; round < 8; ++round) {
    const TinyModel& model = models[round / 4];
    const CpuPath path =
        KernelsOf(kPaths[round % 4]).ok() ? kPaths[round % 4] : CpuPath::kEmulated16;
    Session session(model, path, draw(1, 4));
    std::vector<Sequence> sequences;
    for (int i = 0; i < 7; ++i)
      sequences.push_back(session.Add(DrawTokens(rng, draw(1, 150), model.config.vocab)));
    std::vector<std::vector<float>> last(sequences.size());
    while (true) {
      std::vector<Sequence*> batch;
      std::vector<int32_t> rows;
      std::vector<size_t> ids;
      int32_t budget = model.config.max_tokens;
      for (size_t i = 0; i < sequences.size(); ++i) {
        const int32_t left = static_cast<int32_t>(sequences[i].tokens.size()) - sequences[i].done;
        if (left == 0 || budget == 0 || draw(0, 3) == 0) continue;
        rows.push_back(draw(1, std::min(left, budget)));
        budget -= rows.back();
        batch.push_back(&sequences[i]);
        ids.push_back(i);
      }
      if (batch.empty()) {
        if (std::all_of(sequences.begin(), sequences.end(), [](const Sequence& s) {
              return s.done == static_cast<int32_t>(s.tokens.size());
            }))
          break;
        continue;
      }
      const std::vector<float> logits = session.Step(batch, rows);
      for (size_t b = 0; b < ids.size(); ++b) {
        last[ids[b]].assign(logits.begin() + b * model.config.vocab,
                            logits.begin() + (b + 1) * model.config.vocab);
      }
    }
    for (size_t i = 0; i < sequences.size(); ++i) {
      ASSERT_EQ(last[i], Alone(model, CpuPath::kScalar, 1, sequences[i].tokens, 64))
          << "round " << round << " request " << i;
    }
  }
}

TEST(CpuBackend, MixedOutputKindsComeInOrder) {
  const TinyModel model(TinyConfig{});
  std::mt19937 rng(7);
  const std::vector<int32_t> tokens = DrawTokens(rng, 20, model.config.vocab);
  Session session(model, CpuPath::kEmulated16, 2);
  Sequence s = session.Add(tokens);
  StepBatch batch;
  batch.token_ids = tokens;
  batch.positions.resize(20);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.sequences = {{0, 0, 20}};
  batch.block_tables = {{1, s.blocks[0]}, {1, s.blocks[1]}};
  const auto run = [&](std::vector<OutputRow> outputs, OutputKind kind) {
    batch.outputs = std::move(outputs);
    const Result<StepHandle> handle = session.backend().Submit(batch);
    EXPECT_TRUE(handle.ok()) << handle.status().message();
    const RowsView view = *session.backend().Read(*handle, kind);
    std::vector<std::vector<float>> rows;
    for (int32_t r = 0; r < view.rows; ++r)
      rows.emplace_back(view.data + r * view.stride, view.data + r * view.stride + view.cols);
    session.backend().Release(*handle);
    return rows;
  };
  using enum OutputKind;
  const std::vector<OutputRow> mixed = {
      {3, kHidden}, {3, kLogits}, {8, kSample}, {12, kHidden}, {19, kLogits}};
  const auto logits = run(mixed, kLogits);
  const auto hidden = run(mixed, kHidden);
  ASSERT_EQ(logits.size(), 3u);
  ASSERT_EQ(hidden.size(), 2u);
  EXPECT_EQ(hidden[0].size(), 44u);
  EXPECT_EQ(logits[0], run({{3, kLogits}}, kSample)[0]);
  EXPECT_EQ(logits[1], run({{8, kSample}}, kSample)[0]);
  EXPECT_EQ(logits[2], run({{19, kSample}}, kSample)[0]);
  EXPECT_EQ(hidden[1], run({{12, kHidden}}, kHidden)[0]);
  EXPECT_TRUE(run({}, kLogits).empty());
  // The logits are the head applied to the hidden row.
  const auto both = run({{3, kHidden}}, kHidden);
  double dot = 0;
  for (int32_t c = 0; c < 44; ++c) dot += both[0][c] * model.matrices.at("embed").at[17 * 44 + c];
  EXPECT_NEAR(dot, logits[0][17], 1e-4);
}

}  // namespace
}  // namespace slipstream::exec
