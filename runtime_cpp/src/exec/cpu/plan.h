// The CPU plan of an engine file as checked C++ values. docs/design/engine-file.md ("CPU plan") is
// the schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "engine/manifest.h"
#include "exec/cpu/kernel_table.h"
#include "slipstream/status.h"

namespace slipstream::exec::cpu {

enum class OpKind : uint8_t {
  kEmbedding,
  kRopeTable,
  kRmsNorm,
  kAdd,
  kAddRmsNorm,
  kScale,
  kSoftcap,
  kLinear,
  kLinearGlu,
  kRopeKvWrite,
  kAttention,
  kSelectRows,
};

/// A f32 matrix in the arena: `stride` floats from row to row, for max_tokens or max_outputs rows.
struct PlanValue {
  std::string name;
  bool output_rows = false;  ///< One row per requested output instead of one per token.
  int32_t cols = 0;
  int64_t stride = 0;  ///< In floats.
  int64_t offset = 0;  ///< In bytes, 64-aligned.
};

/// A tensor that a step reads.
struct PlanWeight {
  std::string tensor;  ///< Empty: the step has none.
  core::DType type = core::DType::kF32;
  bool blocked = false;     ///< n16k4 instead of row_major
  int64_t packed_rows = 0;  ///< With padding; the number of elements of a vector.
  int32_t cols = 0;         ///< Columns of a matrix: K.
};

struct PlanStep {
  OpKind op = OpKind::kAdd;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  PlanWeight weight;  ///< table, inv_freq, gain, w, q_gain or sinks
  PlanWeight bias;    ///< bias or k_gain
  float eps = 0.0f;
  float factor = 1.0f;   ///< attention_factor of rope_table, scale of attention, factor of scale
  float softcap = 0.0f;  ///< Of attention, 0 for none; of softcap.
  Activation activation = Activation::kNone;  ///< Of linear_glu.
  int32_t gate_row = 0;
  int32_t up_row = 0;
  int32_t group = 0;
  int32_t layer = 0;
  int32_t heads = 0;
  int32_t rotary_dim = 0;
  int32_t q_col = 0;
  int32_t k_col = 0;
  int32_t v_col = 0;
  /// Some thread's data of an earlier step is needed, or would be overwritten: all threads meet
  /// first.
  bool barrier_before = false;
  /// Works on output rows and nothing that becomes `hidden` needs it: only rows whose logits are
  /// wanted.
  bool logits_only = false;
};

struct CpuPlan {
  int64_t arena_bytes = 0;
  int32_t max_tokens = 0;
  int32_t max_outputs = 0;
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;
  int32_t logits = 0;
  int32_t hidden = 0;
};

/// Parses the plan and checks all that execution relies on: op names, value indices, shapes, memory
/// inside the arena, definition before use, and that tensors and cache groups agree with the
/// manifest. Errors: kCorruptFile (a wrong plan), kIncompatible (a plan this version cannot run),
/// kResourceExhausted.
Result<CpuPlan> ParseCpuPlan(std::string_view json, const engine::Manifest& manifest);

/// Fills barrier_before and logits_only of the steps of a checked plan.
void ScheduleSteps(CpuPlan* plan);

}  // namespace slipstream::exec::cpu
