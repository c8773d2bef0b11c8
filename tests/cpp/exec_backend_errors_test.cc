// What the CPU backend refuses: blocks, batches and plans that cannot be; it goes on afterwards.
#include "exec_backend_session.h"

namespace slipstream::exec {
namespace {

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
