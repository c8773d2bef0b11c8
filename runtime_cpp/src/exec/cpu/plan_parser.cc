#include "exec/cpu/plan_parser.h"

#include <array>
#include <utility>

#include "core/excerpt.h"

namespace slipstream::exec::cpu {
namespace {

/// SinCos of the numerics contract is good up to angles of 2^20.
constexpr int32_t kMaxPositions = 1 << 20;

struct OpSpec {
  const char* name;
  OpKind kind;
  size_t inputs;
  size_t outputs;
  const char* weight;  ///< Role of its tensor, or null.
};
constexpr std::array<OpSpec, 12> kOps = {{
    {"embedding", OpKind::kEmbedding, 0, 1, "table"},
    {"rope_table", OpKind::kRopeTable, 0, 2, "inv_freq"},
    {"rms_norm", OpKind::kRmsNorm, 1, 1, "gain"},
    {"add", OpKind::kAdd, 2, 1, nullptr},
    {"scale", OpKind::kScale, 1, 1, nullptr},
    {"softcap", OpKind::kSoftcap, 1, 1, nullptr},
    {"add_rms_norm", OpKind::kAddRmsNorm, 2, 2, "gain"},
    {"linear", OpKind::kLinear, 1, 1, "w"},
    {"linear_glu", OpKind::kLinearGlu, 1, 1, "w"},
    {"rope_kv_write", OpKind::kRopeKvWrite, 3, 1, nullptr},
    {"attention", OpKind::kAttention, 1, 1, nullptr},
    {"select_rows", OpKind::kSelectRows, 1, 1, nullptr},
}};

}  // namespace

Status PlanParser::Parse(core::JsonReader& reader) {
  const int64_t version = reader.Int("version", 0, kMaxDim);
  const std::string numerics = reader.String("numerics");
  if (!reader.ok()) return reader.status();
  if (version != 1) {
    return Incompatible("it has version " + std::to_string(version) + " and this build reads 1",
                        "Use a newer Slipstream, or build the engine again with this one.");
  }
  if (numerics != "cpu-numerics/1") {
    return Incompatible(
        "it asks for numerics '" + core::Excerpt(numerics) + "' and this build has cpu-numerics/1",
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
      return Corrupt("result '" + core::NameExcerpt(plan_.values[v].name) +
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

void PlanParser::ParseValue(core::JsonReader& reader) {
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

Status PlanParser::ParseStep(core::JsonReader& reader) {
  const std::string op = reader.String("op");
  const int64_t last = static_cast<int64_t>(plan_.values.size()) - 1;
  const std::vector<int64_t> inputs = reader.Ints("inputs", 0, last);
  const std::vector<int64_t> outputs = reader.Ints("outputs", 0, last);
  if (!reader.ok()) return reader.status();
  const OpSpec* spec = nullptr;
  for (const OpSpec& candidate : kOps) {
    if (op == candidate.name) spec = &candidate;
  }
  where_ = "step " + std::to_string(plan_.steps.size()) + " (" + core::Excerpt(op) + ")";
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

Status PlanParser::CheckFlow(const PlanStep& step) {
  const bool in_place = step.op == OpKind::kRmsNorm || step.op == OpKind::kAdd ||
                        step.op == OpKind::kAddRmsNorm || step.op == OpKind::kScale ||
                        step.op == OpKind::kSoftcap;
  for (int32_t v : step.inputs) {
    const PlanValue& in = plan_.values[v];
    if (!defined_[v])
      return Corrupt(where_ + " reads '" + core::NameExcerpt(in.name) +
                     "' before any step makes it");
    const bool select = step.op == OpKind::kSelectRows;
    if (in.output_rows != (select ? false : Out(step, 0).output_rows)) {
      return Corrupt(where_ + " mixes token rows and output rows");
    }
    for (int32_t w : step.outputs) {
      const PlanValue& out = plan_.values[w];
      const bool same = in_place && in.offset == out.offset && in.stride == out.stride;
      if (!same && Overlap(in, out)) {
        return Corrupt(where_ + " writes '" + core::NameExcerpt(out.name) + "' over its input '" +
                       core::NameExcerpt(in.name) + "'");
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
    if ((tokens_only && out.output_rows) || (step.op == OpKind::kSelectRows && !out.output_rows) ||
        out.output_rows != Out(step, 0).output_rows) {
      return Corrupt(where_ + " makes '" + core::NameExcerpt(out.name) +
                     "' with the wrong kind of rows");
    }
  }
  return Status::Ok();
}

bool PlanParser::Overlap(const PlanValue& a, const PlanValue& b) const {
  const auto bytes = [&](const PlanValue& v) {
    return (v.output_rows ? plan_.max_outputs : plan_.max_tokens) * v.stride * 4;
  };
  return a.offset < b.offset + bytes(b) && b.offset < a.offset + bytes(a);
}

}  // namespace slipstream::exec::cpu
