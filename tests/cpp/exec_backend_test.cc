// The CPU backend end to end on a tiny model: against a naive evaluation, and bit for bit over
// paths, threads and chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/dispatch.h"
#include "exec_tiny_model.h"

namespace slipstream::exec {
namespace {

constexpr CpuPath kPaths[] = {CpuPath::kScalar, CpuPath::kEmulated16, CpuPath::kAvx2,
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

std::vector<int32_t> DrawTokens(std::mt19937& rng, int32_t n, int32_t vocab) {
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = std::uniform_int_distribution<int32_t>(0, vocab - 1)(rng);
  return tokens;
}

/// The whole sequence in chunks of `chunk`, alone.
std::vector<float> Alone(const TinyModel& model, CpuPath path, int32_t threads,
                         const std::vector<int32_t>& tokens, int32_t chunk) {
  Session session(model, path, threads);
  Sequence s = session.Add(tokens);
  std::vector<float> logits;
  while (s.done < static_cast<int32_t>(tokens.size())) {
    logits = session.Step({&s}, {std::min<int32_t>(chunk, tokens.size() - s.done)});
  }
  return logits;
}

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

TEST(CpuBackend, RefusesBlocksThatDoNotExist) {
  const TinyModel model(TinyConfig{});
  Session session(model, CpuPath::kScalar, 1);
  Backend& backend = session.backend();
  std::vector<std::byte> image(backend.kv_groups()[0].bytes_per_block);
  const auto refuses = [](const Status& status) {
    return status.code() == StatusCode::kInvalidArgument && !status.message().empty();
  };
  for (const BlockCopy copy :
       {BlockCopy{-1, 0, 1}, BlockCopy{99, 0, 1}, BlockCopy{0, 64, 1}, BlockCopy{0, 0, -1},
        BlockCopy{0, 0, 64}, BlockCopy{0, 0, 1, core::Tier::kDevice, core::Tier::kHost},
        BlockCopy{0, 0, 1, core::Tier::kHost, core::Tier::kDevice}}) {
    EXPECT_TRUE(refuses(backend.CopyBlocks({&copy, 1})));
  }
  EXPECT_TRUE(refuses(backend.ReadBlock(0, 64, image)));
  EXPECT_TRUE(refuses(backend.WriteBlock(-1, 0, image)));
  EXPECT_TRUE(refuses(backend.ReadBlock(0, 0, std::span(image).first(image.size() - 1))));
  EXPECT_TRUE(refuses(backend.WriteBlock(0, 0, std::span(image).first(3))));
  EXPECT_TRUE(backend.ReadBlock(0, 63, image).ok());

  StepBatch batch;
  batch.token_ids = {1};
  batch.positions = {0};
  batch.sequences = {{0, 0, 1}};
  batch.block_tables.resize(backend.kv_groups().size(), {1, {0}});
  const Result<StepHandle> step = backend.Submit(batch);
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_TRUE(refuses(backend.ReadBlock(0, 63, image))) << "a step is in flight";
  backend.Release(*step);
  EXPECT_TRUE(backend.ReadBlock(0, 63, image).ok());
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

TEST(CpuBackend, RefusesWrongBatchesAndGoesOn) {
  const TinyModel model(TinyConfig{});
  Session session(model, CpuPath::kEmulated16, 1);
  StepBatch good;
  good.token_ids = {1, 2, 3};
  good.positions = {0, 1, 2};
  good.sequences = {{0, 0, 3}};
  good.outputs = {{2, OutputKind::kSample}};
  good.block_tables = {{1, {0}}, {1, {0}}};
  const auto code = [&](auto&& change) {
    StepBatch batch = good;
    change(batch);
    const Result<StepHandle> handle = session.backend().Submit(batch);
    if (handle.ok()) session.backend().Release(*handle);
    return handle.status().code();
  };
  EXPECT_EQ(code([](StepBatch&) {}), StatusCode::kOk);
  EXPECT_EQ(code([](StepBatch& b) { b.token_ids[1] = 101; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.token_ids[1] = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.token_ids.pop_back(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.positions = {0, 2, 3}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.positions = {638, 639, 640}; }), StatusCode::kLimitExceeded);
  EXPECT_EQ(code([](StepBatch& b) { b.positions = {31, 32, 33}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.positions = {-1, 0, 1}; }), StatusCode::kLimitExceeded);
  EXPECT_EQ(code([](StepBatch& b) { b.block_tables[1].blocks[0] = 64; }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.block_tables[0].blocks[0] = -1; }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.block_tables.pop_back(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.sequences[0].num_rows = 2; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.sequences[0].slot = 8; }), StatusCode::kLimitExceeded);
  EXPECT_EQ(code([](StepBatch& b) { b.outputs[0].row = 3; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.outputs.resize(9, b.outputs[0]); }),
            StatusCode::kLimitExceeded);
  EXPECT_EQ(code([](StepBatch& b) { b.embedding_rows.resize(1); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b.adapter_slots = {0, 0, 0}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch& b) { b = StepBatch{.block_tables = b.block_tables}; }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](StepBatch&) {}), StatusCode::kOk);
  EXPECT_FALSE(session.backend().Read(12345, OutputKind::kLogits).ok());
}

TEST(CpuBackend, RefusesPlansThatDoNotFit) {
  TinyModel model{TinyConfig{}};
  const auto pool = std::move(*core::ThreadPool::Create(1));
  const auto code = [&](auto&& change) {
    nlohmann::json plan = model.plan;
    engine::Manifest manifest = model.manifest;
    change(plan, manifest);
    const auto backend =
        CreateCpuBackend(*pool, CpuPath::kScalar, manifest, plan.dump(), model.weights);
    EXPECT_TRUE(backend.ok() || backend.status().message().size() > 30u);
    return backend.status().code();
  };
  using J = nlohmann::json;
  using M = engine::Manifest;
  EXPECT_EQ(code([](J&, M&) {}), StatusCode::kOk);
  EXPECT_EQ(code([](J& p, M&) { p["version"] = 2; }), StatusCode::kIncompatible);
  EXPECT_EQ(code([](J& p, M&) { p["numerics"] = "cpu-numerics/9"; }), StatusCode::kIncompatible);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][2]["op"] = "conv"; }), StatusCode::kIncompatible);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][2]["inputs"][0] = 10000; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][2]["inputs"] = J::array(); }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"].erase(0); }), StatusCode::kCorruptFile)
      << "a value nobody makes";
  EXPECT_EQ(code([](J& p, M&) { p["values"][0]["offset"] = 32; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["values"][0]["stride"] = 47; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["arena_bytes"] = 64; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][3]["weights"]["w"] = "nothing"; }),
            StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][3]["weights"]["w"] = "l0.down"; }),
            StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][4]["attrs"]["layer"] = 5; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][4]["attrs"]["v_col"] = 500; }),
            StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][5]["attrs"].erase("scale"); }),
            StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][8]["attrs"]["activation"] = "relu"; }),
            StatusCode::kIncompatible);
  EXPECT_EQ(code([](J& p, M&) { p["steps"][8]["attrs"]["up_row"] = 80; }),
            StatusCode::kCorruptFile);
  // The first norm as an operator without weights.
  const auto map = [&](const char* op, J attrs) {
    return code([&](J& p, M&) {
      J& step = p["steps"][2];
      ASSERT_EQ(step["op"], "rms_norm");
      step["op"] = op;
      step["weights"] = J::object();
      step["attrs"] = attrs;
    });
  };
  EXPECT_EQ(map("scale", {{"factor", 2.5}}), StatusCode::kOk);
  EXPECT_EQ(map("scale", J::object()), StatusCode::kCorruptFile);
  EXPECT_EQ(map("softcap", {{"cap", 30.0}}), StatusCode::kOk);
  EXPECT_EQ(map("softcap", {{"cap", 0.0}}), StatusCode::kCorruptFile);
  EXPECT_EQ(map("softcap", {{"cap", 1e7}}), StatusCode::kCorruptFile);
  const auto int8 = [&](const char* scales, int64_t more) {
    return code([&](J&, M& m) {
      for (engine::KvGroup& group : m.kv_groups) {
        const auto layers = static_cast<int64_t>(group.layers.size());
        group.dtype = "int8";
        group.scale_granularity = scales;
        group.bytes_per_block = layers * 2 * group.kv_heads * 32 * (group.head_dim + 4) + more;
      }
    });
  };
  EXPECT_EQ(int8("token_head", 0), StatusCode::kOk);
  EXPECT_EQ(int8("token_head", 4), StatusCode::kCorruptFile);
  EXPECT_EQ(int8("none", 0), StatusCode::kIncompatible);
  // A layer with more heads than another one of its cache group, and room for them everywhere.
  const auto more_heads = [](J& p, M&) {
    const auto step_of = [&p](const char* op) -> J& {
      J* last = nullptr;
      for (J& step : p["steps"]) {
        if (step["op"] == op) last = &step;
      }
      return *last;
    };
    for (const char* op : {"rope_kv_write", "attention"}) {
      J& step = step_of(op);
      step["attrs"]["heads"] = 8;
      J& value = p["values"][step["outputs"][0].get<size_t>()];
      value["cols"] = value["stride"] = 80;
      value["offset"] = p["arena_bytes"];
      p["arena_bytes"] = p["arena_bytes"].get<int64_t>() + 64 * 80 * 4;
    }
  };
  EXPECT_EQ(code(more_heads), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J& p, M&) { p["results"]["logits"] = 0; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J&, M& m) { m.kv_groups[0].kind = "latent"; }), StatusCode::kIncompatible);
  EXPECT_EQ(code([](J&, M& m) { m.kv_groups[0].bytes_per_block += 1; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J&, M& m) { m.limits.vocab_size = 5000; }), StatusCode::kCorruptFile);
  EXPECT_EQ(code([](J&, M& m) { m.limits.max_seq_len = 1 << 21; }), StatusCode::kIncompatible);
  EXPECT_EQ(code([](J& p, M&) { p = J::parse("[1]"); }), StatusCode::kCorruptFile);
}

}  // namespace
}  // namespace slipstream::exec
