#include "exec/cpu/cpu_backend.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/resource_exhausted.h"
#include "core/worker.h"
#include "exec/block_access.h"
#include "exec/cpu/dispatch.h"
#include "exec/cpu/kernel_table.h"
#include "exec/cpu/plan.h"
#include "exec/cpu/prepared_step.h"
#include "exec/mapped_memory.h"

namespace slipstream::exec {
namespace {

using cpu::OpKind;
using cpu::PlanStep;

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Part `index` of [0, count) in `parts` nearly equal parts.
Range Part(int64_t count, int32_t index, int32_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(core::ThreadPool& pool, const cpu::KernelTable& kernels,
             const engine::Manifest& manifest, cpu::CpuPlan plan,
             std::shared_ptr<const engine::WeightStore> weights)
      : pool_(pool),
        kernels_(kernels),
        plan_(std::move(plan)),
        weights_(std::move(weights)),
        step_(manifest, plan_, pool.threads()),
        vocab_size_(manifest.limits.vocab_size) {
    for (const engine::KvGroup& group : manifest.kv_groups) {
      infos_.push_back({group.bytes_per_block, group.block_tokens, group.window});
      cpu::KvLayer kv;
      kv.bytes_per_block = group.bytes_per_block;
      kv.type = *core::ParseKvDType(group.dtype);
      kv.kv_heads = group.kv_heads;
      kv.head_dim = group.head_dim;
      kv_.push_back(kv);
    }
  }

  /// Finds the tensors, reserves the memory and starts the thread that runs steps.
  Status Init() {
    Result<std::unique_ptr<core::Worker>> worker = core::Worker::Create();
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
    for (const PlanStep& step : plan_.steps) {
      Bound bound;
      if (Status status = Bind(step.weight, &bound.weight); !status.ok()) return status;
      if (Status status = Bind(step.bias, &bound.bias); !status.ok()) return status;
      bound_.push_back(bound);
    }
    int64_t attention_floats = 0;
    for (const cpu::KvLayer& kv : kv_) {
      attention_floats = std::max(attention_floats, cpu::AttentionScratchFloats(kv.head_dim));
    }
    scratch_stride_ = cpu::kPackFloats + attention_floats;
    Result<MappedMemory> arena =
        MappedMemory::Create(plan_.arena_bytes, "the activations of a step");
    if (!arena.ok()) return arena.status();
    arena_ = std::move(*arena);
    Result<MappedMemory> scratch =
        MappedMemory::Create(scratch_stride_ * 4 * pool_.threads(), "the scratch of the threads");
    if (!scratch.ok()) return scratch.status();
    scratch_ = std::move(*scratch);
    return Status::Ok();
  }

  std::span<const KvGroupInfo> kv_groups() const override { return infos_; }

  Status AllocateKv(std::span<const int64_t> blocks) override {
    if (!pool_blocks_.empty())
      return {StatusCode::kInvalidArgument, "The KV pools are already allocated."};
    if (blocks.size() != kv_.size()) {
      return {StatusCode::kInvalidArgument, "Sizes for " + std::to_string(blocks.size()) +
                                                " KV pools are given; the engine has " +
                                                std::to_string(kv_.size()) + " cache groups."};
    }
    try {
      std::vector<MappedMemory> pools;
      for (size_t g = 0; g < kv_.size(); ++g) {
        if (blocks[g] < 1 || blocks[g] > INT32_MAX ||
            blocks[g] > (int64_t{1} << 46) / infos_[g].bytes_per_block) {
          return {StatusCode::kInvalidArgument, "A KV pool of " + std::to_string(blocks[g]) +
                                                    " blocks is not possible; give at least 1."};
        }
        Result<MappedMemory> pool = MappedMemory::Create(
            blocks[g] * infos_[g].bytes_per_block + cpu::kKvPoolPadding, "the KV cache");
        if (!pool.ok()) return pool.status();
        pools.push_back(std::move(*pool));
      }
      pool_blocks_.assign(blocks.begin(), blocks.end());
      kv_pools_ = std::move(pools);
      for (size_t g = 0; g < kv_.size(); ++g) kv_[g].pool = kv_pools_[g].data();
    } catch (const std::bad_alloc&) {
      return core::ResourceExhausted("Not enough memory for the KV cache.");
    }
    return Status::Ok();
  }

  Result<StepHandle> Submit(const StepBatch& batch) override {
    if (in_flight_)
      return Status(StatusCode::kInvalidArgument,
                    "The previous step must be released before the next is submitted.");
    if (pool_blocks_.size() != kv_.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "The KV pools must be allocated before the first step.");
    }
    if (Status status = step_.Prepare(batch, pool_blocks_); !status.ok()) return status;
    in_flight_ = true;
    worker_->Start([](void* self) { static_cast<CpuBackend*>(self)->RunStep(); }, this);
    return ++handle_;
  }

  Status Wait(StepHandle) override {
    worker_->Wait();
    return Status::Ok();
  }

  Result<RowsView> Read(StepHandle step, OutputKind kind) override {
    if (!in_flight_ || step != handle_)
      return Status(StatusCode::kInvalidArgument,
                    "The step to read was released or never submitted.");
    worker_->Wait();
    const bool hidden = kind == OutputKind::kHidden;
    const cpu::PlanValue& value = plan_.values[hidden ? plan_.hidden : plan_.logits];
    RowsView view;
    view.stride = value.stride;
    view.cols = hidden ? value.cols : vocab_size_;
    view.rows = hidden ? step_.output_rows() - step_.logits_rows() : step_.logits_rows();
    view.data = Data(hidden ? plan_.hidden : plan_.logits) +
                (hidden ? step_.logits_rows() * value.stride : 0);
    return view;
  }

  void Release(StepHandle step) override {
    if (step != handle_) return;
    worker_->Wait();
    in_flight_ = false;
  }

  Status CopyBlocks(std::span<const BlockCopy> copies) override {
    if (Status status = CheckCopies(Pools(), copies); !status.ok()) return status;
    for (const BlockCopy& copy : copies) {
      if (copy.source == copy.target) continue;
      std::memcpy(BlockData(copy.group, copy.target), BlockData(copy.group, copy.source),
                  infos_[copy.group].bytes_per_block);
    }
    return Status::Ok();
  }

  Status ReadBlock(int32_t group, int32_t block, std::span<std::byte> image) override {
    if (Status status = CheckImage(Pools(), group, block, image.size()); !status.ok())
      return status;
    std::memcpy(image.data(), BlockData(group, block), image.size());
    return Status::Ok();
  }

  Status WriteBlock(int32_t group, int32_t block, std::span<const std::byte> image) override {
    if (Status status = CheckImage(Pools(), group, block, image.size()); !status.ok())
      return status;
    std::memcpy(BlockData(group, block), image.data(), image.size());
    return Status::Ok();
  }

 private:
  struct Bound {
    const void* weight = nullptr;
    const void* bias = nullptr;
  };

  BlockPools Pools() const { return {infos_, pool_blocks_, in_flight_}; }
  std::byte* BlockData(int32_t group, int32_t block) {
    return kv_pools_[group].data() + block * infos_[group].bytes_per_block;
  }

  Status Bind(const cpu::PlanWeight& weight, const void** data) {
    if (weight.tensor.empty()) return Status::Ok();
    const Result<engine::TensorView> view = weights_->Find(weight.tensor);
    if (!view.ok()) return view.status();
    *data = view->data;
    return Status::Ok();
  }

  float* Data(int32_t value) {
    return reinterpret_cast<float*>(arena_.data() + plan_.values[value].offset);
  }
  int64_t Stride(int32_t value) const { return plan_.values[value].stride; }

  int32_t RowsOf(const PlanStep& step) const {
    if (!plan_.values[step.outputs[0]].output_rows) return step_.rows();
    return step.logits_only ? step_.logits_rows() : step_.output_rows();
  }

  void RunStep() {
    pool_.Run([](void* self, int32_t index,
                 int32_t threads) { static_cast<CpuBackend*>(self)->RunThread(index, threads); },
              this);
  }

  void RunThread(int32_t index, int32_t threads) {
    float* scratch = reinterpret_cast<float*>(scratch_.data()) + index * scratch_stride_;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (step.barrier_before) pool_.Barrier();
      const int32_t rows = RowsOf(step);
      const Range part = Part(rows, index, threads);
      const int32_t row_begin = static_cast<int32_t>(part.begin);
      const int32_t row_end = static_cast<int32_t>(part.end);
      switch (step.op) {
        case OpKind::kLinear:
        case OpKind::kLinearGlu:
          RunLinear(step, bound_[i], rows, index, threads, scratch);
          break;
        case OpKind::kRopeKvWrite:
          RunRopeKvWrite(step, bound_[i], index, threads);
          break;
        case OpKind::kAttention:
          RunAttention(step, bound_[i], index, scratch + cpu::kPackFloats);
          break;
        default:
          if (row_begin < row_end) RunRows(step, bound_[i], row_begin, row_end);
      }
    }
  }

  /// Operations that work row by row.
  void RunRows(const PlanStep& step, const Bound& bound, int32_t row_begin, int32_t row_end) {
    const int32_t out = step.outputs[0];
    const int32_t cols = plan_.values[out].cols;
    if (step.op == OpKind::kEmbedding) {
      kernels_.embedding({step_.ids(), bound.weight, step.weight.type, step.weight.blocked, cols,
                          Data(out), Stride(out), row_begin, row_end});
    } else if (step.op == OpKind::kRopeTable) {
      const int32_t sin = step.outputs[1];
      kernels_.rope_table({step_.positions(), static_cast<const float*>(bound.weight), step.factor,
                           cols, Data(out), Stride(out), Data(sin), Stride(sin), row_begin,
                           row_end});
    } else if (step.op == OpKind::kSelectRows) {
      const int32_t in = step.inputs[0];
      for (int32_t r = row_begin; r < row_end; ++r) {
        std::memcpy(Data(out) + r * Stride(out), Data(in) + step_.select()[r] * Stride(in),
                    sizeof(float) * cols);
      }
    } else if (step.op == OpKind::kAdd) {
      const int32_t a = step.inputs[0];
      const int32_t b = step.inputs[1];
      kernels_.add({Data(a), Stride(a), Data(b), Stride(b), Data(out), Stride(out), cols, row_begin,
                    row_end});
    } else if (step.op == OpKind::kScale || step.op == OpKind::kSoftcap) {
      const int32_t in = step.inputs[0];
      kernels_.map({Data(in), Stride(in), Data(out), Stride(out), step.factor, step.softcap, cols,
                    row_begin, row_end});
    } else {
      cpu::NormArgs args;
      const int32_t x = step.inputs[0];
      args.x = Data(x);
      args.x_stride = Stride(x);
      int32_t y = out;
      if (step.op == OpKind::kAddRmsNorm) {
        args.delta = Data(step.inputs[1]);
        args.delta_stride = Stride(step.inputs[1]);
        args.sum = Data(out);
        args.sum_stride = Stride(out);
        y = step.outputs[1];
      }
      args.gain = static_cast<const float*>(bound.weight);
      args.eps = step.eps;
      args.y = Data(y);
      args.y_stride = Stride(y);
      args.cols = cols;
      args.row_begin = row_begin;
      args.row_end = row_end;
      kernels_.norm(args);
    }
  }

  void RunLinear(const PlanStep& step, const Bound& bound, int32_t rows, int32_t index,
                 int32_t threads, float* scratch) {
    const int32_t x = step.inputs[0];
    const int32_t y = step.outputs[0];
    // Over columns: each thread then streams its own part of the weights once.
    const Range part = Part(plan_.values[y].cols / cpu::kBlockRows, index, threads);
    cpu::GemmArgs args;
    args.x = Data(x);
    args.x_stride = Stride(x);
    args.row_end = rows;
    args.k = step.weight.cols;
    args.w = bound.weight;
    args.w_type = step.weight.type;
    args.bias = static_cast<const float*>(bound.bias);
    args.y = Data(y);
    args.y_stride = Stride(y);
    args.block_begin = static_cast<int32_t>(part.begin);
    args.block_end = static_cast<int32_t>(part.end);
    args.activation = step.activation;
    args.gate_block = step.gate_row / cpu::kBlockRows;
    args.up_block = step.up_row / cpu::kBlockRows;
    args.pack = scratch;
    if (rows > 0 && part.begin < part.end) kernels_.gemm(args);
  }

  cpu::KvLayer Layer(const PlanStep& step) const {
    cpu::KvLayer kv = kv_[step.group];
    const int64_t tokens = static_cast<int64_t>(kv.kv_heads) * cpu::kKvBlockTokens;
    const int64_t half = tokens * kv.head_dim * core::DTypeSize(kv.type);
    const int64_t scales = tokens * core::KvScaleBytes(kv.type);
    kv.k_offset = step.layer * 2 * (half + scales);
    kv.v_offset = kv.k_offset + half;
    kv.k_scales = kv.v_offset + half;
    kv.v_scales = kv.k_scales + scales;
    return kv;
  }

  void RunRopeKvWrite(const PlanStep& step, const Bound& bound, int32_t index, int32_t threads) {
    cpu::RopeKvArgs args;
    args.kv = Layer(step);
    const Range part =
        Part(int64_t{step_.rows()} * (step.heads + 2 * args.kv.kv_heads), index, threads);
    args.qkv = Data(step.inputs[0]);
    args.qkv_stride = Stride(step.inputs[0]);
    args.cos = Data(step.inputs[1]);
    args.cos_stride = Stride(step.inputs[1]);
    args.sin = Data(step.inputs[2]);
    args.sin_stride = Stride(step.inputs[2]);
    args.q = Data(step.outputs[0]);
    args.q_stride = Stride(step.outputs[0]);
    args.positions = step_.positions();
    args.blocks = step_.row_blocks(step.group);
    args.heads = step.heads;
    args.half = step.rotary_dim / 2;
    args.q_col = step.q_col;
    args.k_col = step.k_col;
    args.v_col = step.v_col;
    args.q_gain = static_cast<const float*>(bound.weight);
    args.k_gain = static_cast<const float*>(bound.bias);
    args.eps = step.eps;
    args.unit_begin = part.begin;
    args.unit_end = part.end;
    kernels_.rope_kv_write(args);
  }

  void RunAttention(const PlanStep& step, const Bound& bound, int32_t index, float* scratch) {
    const cpu::AttentionWork& work = step_.work(step.group);
    cpu::AttentionArgs args;
    args.q = Data(step.inputs[0]);
    args.q_stride = Stride(step.inputs[0]);
    args.o = Data(step.outputs[0]);
    args.o_stride = Stride(step.outputs[0]);
    args.kv = Layer(step);
    args.heads = step.heads;
    args.window = infos_[step.group].window;
    args.scale = step.factor;
    args.softcap = step.softcap;
    args.sinks = static_cast<const float*>(bound.weight);
    args.items = work.items.data();
    args.item_begin = work.thread_begin[index];
    args.item_end = work.thread_begin[index + 1];
    args.scratch = scratch;
    kernels_.attention(args);
  }

  core::ThreadPool& pool_;
  const cpu::KernelTable& kernels_;
  cpu::CpuPlan plan_;
  std::shared_ptr<const engine::WeightStore> weights_;
  cpu::PreparedStep step_;
  int32_t vocab_size_;
  std::vector<KvGroupInfo> infos_;
  std::vector<cpu::KvLayer> kv_;  ///< Of layer 0 of each group.
  std::vector<Bound> bound_;      ///< One per plan step.
  MappedMemory arena_;
  MappedMemory scratch_;
  int64_t scratch_stride_ = 0;  ///< Floats per thread.
  std::vector<int64_t> pool_blocks_;
  std::vector<MappedMemory> kv_pools_;
  StepHandle handle_ = 0;
  bool in_flight_ = false;
  std::unique_ptr<core::Worker> worker_;  // Runs the step; ends before what it works on.
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateCpuBackend(
    core::ThreadPool& pool, CpuPath path, const engine::Manifest& manifest,
    std::string_view plan_json, std::shared_ptr<const engine::WeightStore> weights) {
  const Result<const cpu::KernelTable*> kernels = KernelsOf(path);
  if (!kernels.ok()) return kernels.status();
  Result<cpu::CpuPlan> plan = cpu::ParseCpuPlan(plan_json, manifest);
  if (!plan.ok()) return plan.status();
  try {
    auto backend = std::make_unique<CpuBackend>(pool, **kernels, manifest, std::move(*plan),
                                                std::move(weights));
    if (Status status = backend->Init(); !status.ok()) return status;
    return std::unique_ptr<Backend>(std::move(backend));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Not enough memory to prepare the CPU plan.");
  }
}

}  // namespace slipstream::exec
