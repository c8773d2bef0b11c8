#include "exec/cpu/plan.h"

#include <array>
#include <cmath>
#include <new>
#include <utility>

#include "core/json_util.h"
#include "core/resource_exhausted.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 30;
/// SinCos of the numerics contract is good up to angles of 2^20.
constexpr int32_t kMaxPositions = 1 << 20;

struct OpSpec {
  const char* name;
  OpKind kind;
  size_t inputs;
  size_t outputs;
  const char* weight;  ///< Role of its tensor, or null.
};
constexpr std::array<OpSpec, 10> kOps = {{
    {"embedding", OpKind::kEmbedding, 0, 1, "table"},
    {"rope_table", OpKind::kRopeTable, 0, 2, "inv_freq"},
    {"rms_norm", OpKind::kRmsNorm, 1, 1, "gain"},
    {"add", OpKind::kAdd, 2, 1, nullptr},
    {"add_rms_norm", OpKind::kAddRmsNorm, 2, 2, "gain"},
    {"linear", OpKind::kLinear, 1, 1, "w"},
    {"linear_glu", OpKind::kLinearGlu, 1, 1, "w"},
    {"rope_kv_write", OpKind::kRopeKvWrite, 3, 1, nullptr},
    {"attention", OpKind::kAttention, 1, 1, nullptr},
    {"select_rows", OpKind::kSelectRows, 1, 1, nullptr},
}};

Status Corrupt(const std::string& what) {
  return {StatusCode::kCorruptFile,
          "The CPU plan of the engine file is wrong: " + what + ". Build the engine again."};
}

Status Incompatible(const std::string& what, const std::string& fix) {
  return {StatusCode::kIncompatible, "The CPU plan cannot run here: " + what + ". " + fix};
}

class PlanParser {
 public:
  PlanParser(const engine::Manifest& manifest, CpuPlan* plan) : manifest_(manifest), plan_(*plan) {}

  Status Parse(core::JsonReader& reader) {
    const int64_t version = reader.Int("version", 0, kMaxDim);
    const std::string numerics = reader.String("numerics");
    if (!reader.ok()) return reader.status();
    if (version != 1) {
      return Incompatible("it has version " + std::to_string(version) + " and this build reads 1",
                          "Use a newer Slipstream, or build the engine again with this one.");
    }
    if (numerics != "cpu-numerics/1") {
      return Incompatible(
          "it asks for numerics '" + numerics + "' and this build has cpu-numerics/1",
          "Build the engine again with this version.");
    }
    plan_.arena_bytes = reader.Int("arena_bytes", 0, int64_t{1} << 46);
    plan_.max_tokens = static_cast<int32_t>(reader.Int("max_tokens", 1, 1 << 20));
    plan_.max_outputs = static_cast<int32_t>(reader.Int("max_outputs", 1, 1 << 20));
    if (!reader.ok()) return reader.status();
    if (manifest_.limits.max_seq_len > kMaxPositions) {
      return Incompatible("max_seq_len is " + std::to_string(manifest_.limits.max_seq_len) +
                              " and the rotary embedding is exact up to 1048576 positions",
                          "Build with --max-seq-len 1048576 or less.");
    }
    reader.Objects("values", [&](core::JsonReader& value) { ParseValue(value); });
    if (!reader.ok()) return reader.status();
    defined_.assign(plan_.values.size(), false);
    Status status;
    reader.Objects("steps", [&](core::JsonReader& step) {
      if (status.ok()) status = ParseStep(step);
    });
    if (!reader.ok()) return reader.status();
    if (!status.ok()) return status;
    core::JsonReader results = reader.Object("results");
    const int64_t last = static_cast<int64_t>(plan_.values.size()) - 1;
    plan_.logits = static_cast<int32_t>(results.Int("logits", 0, last));
    plan_.hidden = static_cast<int32_t>(results.Int("hidden", 0, last));
    if (!reader.ok()) return reader.status();
    for (int32_t v : {plan_.logits, plan_.hidden}) {
      if (!defined_[v] || !plan_.values[v].output_rows) {
        return Corrupt("result '" + plan_.values[v].name +
                       "' is not made by a step, or is not per output row");
      }
    }
    if (plan_.values[plan_.logits].cols < manifest_.limits.vocab_size) {
      return Corrupt("the logits have " + std::to_string(plan_.values[plan_.logits].cols) +
                     " columns and the vocabulary " + std::to_string(manifest_.limits.vocab_size) +
                     " ids");
    }
    return Status::Ok();
  }

 private:
  void ParseValue(core::JsonReader& reader) {
    PlanValue value;
    value.name = reader.String("name");
    const std::string rows = reader.String("rows");
    value.cols = static_cast<int32_t>(reader.Int("cols", 1, kMaxDim));
    value.stride = reader.Int("stride", 1, kMaxDim);
    value.offset = reader.Int("offset", 0, plan_.arena_bytes);
    if (!reader.ok()) return;
    value.output_rows = rows == "outputs";
    const int64_t count = value.output_rows ? plan_.max_outputs : plan_.max_tokens;
    if (rows != "tokens" && rows != "outputs")
      reader.Fail("rows", "is neither 'tokens' nor 'outputs'");
    if (value.stride < value.cols || value.stride % 16 != 0) {
      reader.Fail("stride", "is smaller than cols or not a multiple of 16");
    }
    if (value.offset % 64 != 0) reader.Fail("offset", "is not a multiple of 64");
    if (count * value.stride * 4 > plan_.arena_bytes - value.offset) {
      reader.Fail("offset", "places the value beyond the end of the arena");
    }
    plan_.values.push_back(std::move(value));
  }

  const PlanValue& In(const PlanStep& s, size_t i) const { return plan_.values[s.inputs[i]]; }
  const PlanValue& Out(const PlanStep& s, size_t i) const { return plan_.values[s.outputs[i]]; }

  Status ParseStep(core::JsonReader& reader) {
    const std::string op = reader.String("op");
    const int64_t last = static_cast<int64_t>(plan_.values.size()) - 1;
    const std::vector<int64_t> inputs = reader.Ints("inputs", 0, last);
    const std::vector<int64_t> outputs = reader.Ints("outputs", 0, last);
    if (!reader.ok()) return reader.status();
    const OpSpec* spec = nullptr;
    for (const OpSpec& candidate : kOps) {
      if (op == candidate.name) spec = &candidate;
    }
    where_ = "step " + std::to_string(plan_.steps.size()) + " (" + op + ")";
    if (spec == nullptr) {
      return Incompatible(where_ + " is an operation this build does not know",
                          "Use a newer Slipstream, or build the engine again with this one.");
    }
    if (inputs.size() != spec->inputs || outputs.size() != spec->outputs) {
      return Corrupt(where_ + " has " + std::to_string(inputs.size()) + " inputs and " +
                     std::to_string(outputs.size()) + " outputs; expected " +
                     std::to_string(spec->inputs) + " and " + std::to_string(spec->outputs));
    }
    PlanStep step;
    step.op = spec->kind;
    step.inputs.assign(inputs.begin(), inputs.end());
    step.outputs.assign(outputs.begin(), outputs.end());
    if (Status status = CheckFlow(step); !status.ok()) return status;
    core::JsonReader weights = reader.Object("weights");
    core::JsonReader attrs = reader.Object("attrs");
    if (!reader.ok()) return reader.status();
    if (spec->weight != nullptr) {
      if (Status status = ParseWeight(weights, spec->weight, &step.weight); !status.ok())
        return status;
    }
    Status status = ParseOp(step, attrs, weights);
    if (!reader.ok()) return reader.status();
    if (!status.ok()) return status;
    for (int32_t v : step.outputs) defined_[v] = true;
    plan_.steps.push_back(std::move(step));
    return Status::Ok();
  }

  /// Definition before use, equal row kinds, outputs that overlap no input (row-wise ops may work
  /// in place).
  Status CheckFlow(const PlanStep& step) {
    const bool in_place =
        step.op == OpKind::kRmsNorm || step.op == OpKind::kAdd || step.op == OpKind::kAddRmsNorm;
    for (int32_t v : step.inputs) {
      const PlanValue& in = plan_.values[v];
      if (!defined_[v])
        return Corrupt(where_ + " reads '" + in.name + "' before any step makes it");
      const bool select = step.op == OpKind::kSelectRows;
      if (in.output_rows != (select ? false : Out(step, 0).output_rows)) {
        return Corrupt(where_ + " mixes token rows and output rows");
      }
      for (int32_t w : step.outputs) {
        const PlanValue& out = plan_.values[w];
        const bool same = in_place && in.offset == out.offset && in.stride == out.stride;
        if (!same && Overlap(in, out)) {
          return Corrupt(where_ + " writes '" + out.name + "' over its input '" + in.name + "'");
        }
      }
    }
    if (step.outputs.size() == 2 && Overlap(Out(step, 0), Out(step, 1))) {
      return Corrupt(where_ + " has two outputs in the same memory");
    }
    const bool tokens_only = step.op == OpKind::kEmbedding || step.op == OpKind::kRopeTable ||
                             step.op == OpKind::kRopeKvWrite || step.op == OpKind::kAttention;
    for (int32_t v : step.outputs) {
      const PlanValue& out = plan_.values[v];
      if ((tokens_only && out.output_rows) ||
          (step.op == OpKind::kSelectRows && !out.output_rows) ||
          out.output_rows != Out(step, 0).output_rows) {
        return Corrupt(where_ + " makes '" + out.name + "' with the wrong kind of rows");
      }
    }
    return Status::Ok();
  }

  bool Overlap(const PlanValue& a, const PlanValue& b) const {
    const auto bytes = [&](const PlanValue& v) {
      return (v.output_rows ? plan_.max_outputs : plan_.max_tokens) * v.stride * 4;
    };
    return a.offset < b.offset + bytes(b) && b.offset < a.offset + bytes(a);
  }

  /// Looks the tensor up. Matrix dims are checked by the op.
  Status ParseWeight(core::JsonReader& weights, const char* role, PlanWeight* out) {
    out->tensor = weights.String(role);
    if (!weights.ok()) return weights.status();
    const engine::Tensor* tensor = manifest_.FindTensor(out->tensor);
    if (tensor == nullptr) {
      return Corrupt(where_ + " uses tensor '" + out->tensor +
                     "', which the manifest does not list");
    }
    const auto type = core::ParseDType(tensor->format);
    if (!type.has_value() || (tensor->layout != "row_major" && tensor->layout != "n16k4")) {
      return Incompatible("tensor '" + tensor->name + "' has format " + tensor->format +
                              " in layout " + tensor->layout,
                          "This build runs f32, f16 and bf16 in row_major or n16k4; build the "
                          "engine again with it.");
    }
    out->type = *type;
    out->blocked = tensor->layout == "n16k4";
    const int64_t element = core::DTypeSize(*type);
    const std::vector<int64_t>& shape = tensor->logical_shape;
    if (shape.size() == 2 && shape[1] > 0 && shape[1] <= kMaxDim) {
      const int64_t per_unit = 4 / element;
      const int64_t row_bytes =
          out->blocked ? (shape[1] + per_unit - 1) / per_unit * 4 : shape[1] * element;
      out->packed_rows = static_cast<int64_t>(tensor->size) / row_bytes;
      if (out->packed_rows * row_bytes != static_cast<int64_t>(tensor->size) ||
          out->packed_rows < shape[0] || (out->blocked && out->packed_rows % kBlockRows != 0)) {
        return Corrupt("tensor '" + tensor->name + "' of " + std::to_string(tensor->size) +
                       " bytes does not hold whole rows of its shape");
      }
    } else if (shape.size() == 1 && !out->blocked) {
      out->packed_rows = static_cast<int64_t>(tensor->size) / element;
    } else {
      return Corrupt("tensor '" + tensor->name + "' has a shape that the plan cannot use");
    }
    out->cols = static_cast<int32_t>(shape.back());
    shape_ = shape;
    return Status::Ok();
  }

  Status CheckVector(const PlanWeight& w, int64_t size) {
    if (shape_.size() != 1 || w.type != core::DType::kF32 || w.packed_rows < size) {
      return Corrupt(where_ + " needs tensor '" + w.tensor + "' as a f32 vector of " +
                     std::to_string(size));
    }
    return Status::Ok();
  }

  Status CheckMatrix(const PlanWeight& w, int64_t cols) {
    if (shape_.size() != 2 || shape_[1] != cols) {
      return Corrupt(where_ + " needs tensor '" + w.tensor + "' as a matrix with " +
                     std::to_string(cols) + " columns");
    }
    return Status::Ok();
  }

  Status ParseOp(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights) {
    switch (step.op) {
      case OpKind::kEmbedding:
        if (step.weight.packed_rows < manifest_.limits.vocab_size) {
          return Corrupt(where_ + " has fewer rows than the vocabulary");
        }
        return CheckMatrix(step.weight, Out(step, 0).cols);
      case OpKind::kRopeTable:
        step.factor = static_cast<float>(attrs.Number("attention_factor"));
        if (Out(step, 0).cols != Out(step, 1).cols)
          return Corrupt(where_ + " has cos and sin of different widths");
        return CheckVector(step.weight, Out(step, 0).cols);
      case OpKind::kRmsNorm:
      case OpKind::kAddRmsNorm:
        step.eps = static_cast<float>(attrs.Number("eps"));
        if (Status s = CheckSameCols(step); !s.ok()) return s;
        return CheckVector(step.weight, Out(step, 0).cols);
      case OpKind::kAdd:
      case OpKind::kSelectRows:
        return CheckSameCols(step);
      case OpKind::kLinear:
      case OpKind::kLinearGlu:
        return ParseLinear(step, attrs, weights);
      case OpKind::kRopeKvWrite:
      case OpKind::kAttention:
        return ParseCacheOp(step, attrs, weights);
    }
    return Corrupt(where_);
  }

  /// Outputs of one width, inputs at least as wide: a linear writes its padding columns too, which
  /// nobody reads.
  Status CheckSameCols(const PlanStep& step) {
    const int32_t cols = Out(step, 0).cols;
    for (int32_t v : step.inputs) {
      if (plan_.values[v].cols < cols)
        return Corrupt(where_ + " has an input narrower than its output");
    }
    for (int32_t v : step.outputs) {
      if (plan_.values[v].cols != cols) return Corrupt(where_ + " has outputs of different widths");
    }
    return Status::Ok();
  }

  Status ParseLinear(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights) {
    if (shape_.size() != 2 || shape_[1] > In(step, 0).cols) {
      return Corrupt(where_ + " has fewer input columns than tensor '" + step.weight.tensor + "'");
    }
    if (!step.weight.blocked) {
      return Incompatible(where_ + " has its weights in layout row_major",
                          "Build the engine again with this version.");
    }
    const int64_t cols = Out(step, 0).cols;
    const int64_t rows = step.weight.packed_rows;
    if (step.op == OpKind::kLinear) {
      if (cols != rows)
        return Corrupt(where_ + " makes " + std::to_string(cols) + " columns from " +
                       std::to_string(rows) + " rows");
    } else {
      const std::string activation = attrs.String("activation");
      if (!attrs.ok()) return attrs.status();
      if (activation != "silu") {
        return Incompatible(where_ + " has activation '" + activation + "'",
                            "This build knows silu.");
      }
      step.gate_row = static_cast<int32_t>(attrs.Int("gate_row", 0, kMaxDim));
      step.up_row = static_cast<int32_t>(attrs.Int("up_row", 0, kMaxDim));
      if (!attrs.ok()) return attrs.status();
      if (cols % 16 != 0 || step.gate_row % 16 != 0 || step.up_row % 16 != 0 ||
          step.gate_row + cols > rows || step.up_row + cols > rows) {
        return Corrupt(where_ + " reads gate or up rows that its weight does not have");
      }
    }
    if (weights.Has("bias") && !weights.IsNull("bias")) {
      if (Status s = ParseWeight(weights, "bias", &step.bias); !s.ok()) return s;
      return CheckVector(step.bias, rows);
    }
    return Status::Ok();
  }

  Status ParseCacheOp(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights) {
    step.group = static_cast<int32_t>(
        attrs.Int("group", 0, static_cast<int64_t>(manifest_.kv_groups.size()) - 1));
    step.layer = static_cast<int32_t>(attrs.Int("layer", 0, kMaxDim));
    step.heads = static_cast<int32_t>(attrs.Int("heads", 1, 1 << 16));
    const int64_t kv_heads = attrs.Int("kv_heads", 1, 1 << 16);
    const int64_t head_dim = attrs.Int("head_dim", 1, 1 << 16);
    if (!attrs.ok()) return attrs.status();
    const engine::KvGroup& group = manifest_.kv_groups[step.group];
    if (group.kv_heads != kv_heads || group.head_dim != head_dim ||
        step.layer >= static_cast<int64_t>(group.layers.size()) || step.heads % kv_heads != 0) {
      return Corrupt(where_ + " disagrees with cache group " + std::to_string(step.group) +
                     " of the manifest");
    }
    const int64_t q_cols = step.heads * head_dim;
    if (Out(step, 0).cols != q_cols)
      return Corrupt(where_ + " has an output that is not heads * head_dim wide");
    if (step.op == OpKind::kAttention) {
      step.factor = static_cast<float>(attrs.Number("scale"));
      if (attrs.Has("softcap")) step.softcap = static_cast<float>(attrs.Number("softcap"));
      if (!attrs.ok()) return attrs.status();
      if (!(step.softcap >= 0.0f && step.softcap < 1e6f))
        return Corrupt(where_ + " has a softcap that is not between 0 and 1e6");
      if (weights.Has("sinks")) {
        if (Status s = ParseWeight(weights, "sinks", &step.weight); !s.ok()) return s;
        if (Status s = CheckVector(step.weight, step.heads); !s.ok()) return s;
      }
      if (In(step, 0).cols != q_cols)
        return Corrupt(where_ + " has an input that is not heads * head_dim wide");
      // PreparedStep splits the work of a group once for all its layers.
      for (const PlanStep& other : plan_.steps) {
        if (other.op == OpKind::kAttention && other.group == step.group &&
            other.heads != step.heads) {
          return Corrupt(where_ + " has another number of heads than the layers before it");
        }
      }
      return Status::Ok();
    }
    step.rotary_dim = static_cast<int32_t>(attrs.Int("rotary_dim", 0, head_dim));
    step.q_col = static_cast<int32_t>(attrs.Int("q_col", 0, kMaxDim));
    step.k_col = static_cast<int32_t>(attrs.Int("k_col", 0, kMaxDim));
    step.v_col = static_cast<int32_t>(attrs.Int("v_col", 0, kMaxDim));
    if (!attrs.ok()) return attrs.status();
    const int64_t cols = In(step, 0).cols;
    if (step.rotary_dim % 2 != 0 || In(step, 1).cols != step.rotary_dim / 2 ||
        In(step, 2).cols != step.rotary_dim / 2 || step.q_col + q_cols > cols ||
        step.k_col + kv_heads * head_dim > cols || step.v_col + kv_heads * head_dim > cols) {
      return Corrupt(where_ + " reads columns that its inputs do not have");
    }
    if (!weights.Has("q_gain") && !weights.Has("k_gain")) return Status::Ok();
    return ParseHeadNorm(step, head_dim, attrs, weights);
  }

  /// Norms over the heads of q and k: both or none.
  Status ParseHeadNorm(PlanStep& step, int64_t head_dim, core::JsonReader& attrs,
                       core::JsonReader& weights) {
    step.eps = static_cast<float>(attrs.Number("eps"));
    if (!attrs.ok()) return attrs.status();
    if (head_dim > kMaxNormedHead) {
      return Incompatible(where_ + " normalizes heads of " + std::to_string(head_dim) +
                              " elements; the limit is " + std::to_string(kMaxNormedHead),
                          "Use a newer Slipstream.");
    }
    if (Status s = ParseWeight(weights, "q_gain", &step.weight); !s.ok()) return s;
    if (Status s = CheckVector(step.weight, head_dim); !s.ok()) return s;
    if (Status s = ParseWeight(weights, "k_gain", &step.bias); !s.ok()) return s;
    return CheckVector(step.bias, head_dim);
  }

  const engine::Manifest& manifest_;
  CpuPlan& plan_;
  std::string where_;
  std::vector<bool> defined_;
  std::vector<int64_t> shape_;  ///< Of the tensor parsed last.
};

Status CheckGroups(const engine::Manifest& manifest) {
  for (const engine::KvGroup& group : manifest.kv_groups) {
    if (group.kind != "full" && group.kind != "window") {
      return Incompatible("cache group kind '" + group.kind + "'",
                          "This build runs full and window groups.");
    }
    const auto type = core::ParseDType(group.dtype);
    if (!type.has_value() || group.block_tokens != kKvBlockTokens) {
      return Incompatible(
          "a cache of " + group.dtype + " in blocks of " + std::to_string(group.block_tokens),
          "This build runs f32, f16 and bf16 in blocks of 32.");
    }
    const int64_t expected = static_cast<int64_t>(group.layers.size()) * 2 * group.kv_heads *
                             group.head_dim * kKvBlockTokens * core::DTypeSize(*type);
    if (group.kv_heads < 1 || group.head_dim < 1 || group.bytes_per_block != expected ||
        (group.kind == "window") != (group.window > 0)) {
      return Corrupt("a cache group of the manifest has " + std::to_string(group.bytes_per_block) +
                     " bytes per block, expected " + std::to_string(expected) +
                     ", or a wrong window");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<CpuPlan> ParseCpuPlan(std::string_view json, const engine::Manifest& manifest) {
  try {
    if (Status status = CheckGroups(manifest); !status.ok()) return status;
    Result<core::JsonTree> root = core::ParseJson(json, "the CPU plan");
    if (root.status().code() == StatusCode::kResourceExhausted) return root.status();
    if (!root.ok()) return Status(StatusCode::kCorruptFile, root.status().message());
    core::JsonReader reader(*root, "the CPU plan", StatusCode::kCorruptFile);
    CpuPlan plan;
    PlanParser parser(manifest, &plan);
    if (Status status = parser.Parse(reader); !status.ok()) return status;
    if (!reader.ok()) return reader.status();
    ScheduleSteps(&plan);
    return plan;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Not enough memory to read the CPU plan of the engine file.");
  }
}

}  // namespace slipstream::exec::cpu
