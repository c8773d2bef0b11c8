// What each operator of a plan asks for.
#include "core/excerpt.h"
#include "exec/cpu/plan_parser.h"

namespace slipstream::exec::cpu {
namespace {

constexpr float kMaxSoftcap = 1e6f;

}  // namespace

Status PlanParser::ParseOp(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights) {
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
    case OpKind::kScale:
    case OpKind::kSoftcap:
      return ParseMap(step, attrs);
    case OpKind::kLinear:
    case OpKind::kLinearGlu:
      return ParseLinear(step, attrs, weights);
    case OpKind::kRopeKvWrite:
    case OpKind::kAttention:
      return ParseCacheOp(step, attrs, weights);
  }
  return Corrupt(where_);
}

Status PlanParser::CheckSameCols(const PlanStep& step) {
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

Status PlanParser::ParseMap(PlanStep& step, core::JsonReader& attrs) {
  if (step.op == OpKind::kScale) {
    step.factor = static_cast<float>(attrs.Number("factor"));
  } else {
    step.softcap = static_cast<float>(attrs.Number("cap"));
    if (attrs.ok() && !(step.softcap > 0.0f && step.softcap < kMaxSoftcap))
      return Corrupt(where_ + " has a cap that is not between 0 and 1e6");
  }
  return CheckSameCols(step);
}

Status PlanParser::ParseActivation(PlanStep& step, core::JsonReader& attrs) {
  const std::string activation = attrs.String("activation");
  if (!attrs.ok()) return attrs.status();
  if (activation == "silu") {
    step.activation = Activation::kSilu;
  } else if (activation == "gelu_tanh") {
    step.activation = Activation::kGeluTanh;
  } else {
    return Incompatible(where_ + " has activation '" + core::Excerpt(activation) + "'",
                        "This build knows silu and gelu_tanh.");
  }
  return Status::Ok();
}

Status PlanParser::ParseLinear(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights) {
  if (shape_.size() != 2 || shape_[1] > In(step, 0).cols) {
    return Corrupt(where_ + " has fewer input columns than tensor '" +
                   core::NameExcerpt(step.weight.tensor) + "'");
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
    if (Status s = ParseActivation(step, attrs); !s.ok()) return s;
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

Status PlanParser::ParseCacheOp(PlanStep& step, core::JsonReader& attrs,
                                core::JsonReader& weights) {
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
  return step.op == OpKind::kAttention ? ParseAttention(step, q_cols, attrs, weights)
                                       : ParseRopeKvWrite(step, group, attrs, weights);
}

Status PlanParser::ParseAttention(PlanStep& step, int64_t q_cols, core::JsonReader& attrs,
                                  core::JsonReader& weights) {
  step.factor = static_cast<float>(attrs.Number("scale"));
  if (attrs.Has("softcap")) step.softcap = static_cast<float>(attrs.Number("softcap"));
  if (!attrs.ok()) return attrs.status();
  if (!(step.softcap >= 0.0f && step.softcap < kMaxSoftcap))
    return Corrupt(where_ + " has a softcap that is not between 0 and 1e6");
  if (weights.Has("sinks")) {
    if (Status s = ParseWeight(weights, "sinks", &step.weight); !s.ok()) return s;
    if (Status s = CheckVector(step.weight, step.heads); !s.ok()) return s;
  }
  if (In(step, 0).cols != q_cols)
    return Corrupt(where_ + " has an input that is not heads * head_dim wide");
  // PreparedStep splits the work of a group once for all its layers.
  for (const PlanStep& other : plan_.steps) {
    if (other.op == OpKind::kAttention && other.group == step.group && other.heads != step.heads) {
      return Corrupt(where_ + " has another number of heads than the layers before it");
    }
  }
  return Status::Ok();
}

Status PlanParser::ParseRopeKvWrite(PlanStep& step, const engine::KvGroup& group,
                                    core::JsonReader& attrs, core::JsonReader& weights) {
  const int64_t kv_heads = group.kv_heads;
  const int64_t head_dim = group.head_dim;
  const int64_t q_cols = step.heads * head_dim;
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

Status PlanParser::ParseHeadNorm(PlanStep& step, int64_t head_dim, core::JsonReader& attrs,
                                 core::JsonReader& weights) {
  step.eps = static_cast<float>(attrs.Number("eps"));
  if (!attrs.ok()) return attrs.status();
  if (Status s = ParseWeight(weights, "q_gain", &step.weight); !s.ok()) return s;
  if (Status s = CheckVector(step.weight, head_dim); !s.ok()) return s;
  if (Status s = ParseWeight(weights, "k_gain", &step.bias); !s.ok()) return s;
  return CheckVector(step.bias, head_dim);
}

}  // namespace slipstream::exec::cpu
