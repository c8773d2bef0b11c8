// The parser of the CPU plan. Its parts lie apart by concern: plan_parser.cc reads values, steps
// and the flow of data, plan_ops.cc what each operator asks for, plan_weights.cc the tensors.
#pragma once

#include <string>
#include <vector>

#include "core/json_util.h"
#include "exec/cpu/plan.h"

namespace slipstream::exec::cpu {

constexpr int64_t kMaxDim = int64_t{1} << 30;

inline Status Corrupt(const std::string& what) {
  return {StatusCode::kCorruptFile,
          "The CPU plan of the engine file is wrong: " + what + ". Build the engine again."};
}

inline Status Incompatible(const std::string& what, const std::string& fix) {
  return {StatusCode::kIncompatible, "The CPU plan cannot run here: " + what + ". " + fix};
}

/// Reads one plan into `plan`; used once.
class PlanParser {
 public:
  PlanParser(const engine::Manifest& manifest, CpuPlan* plan) : manifest_(manifest), plan_(*plan) {}

  /// The whole plan. kCorruptFile, kIncompatible.
  Status Parse(core::JsonReader& reader);

 private:
  const PlanValue& In(const PlanStep& s, size_t i) const { return plan_.values[s.inputs[i]]; }
  const PlanValue& Out(const PlanStep& s, size_t i) const { return plan_.values[s.outputs[i]]; }

  void ParseValue(core::JsonReader& reader);
  Status ParseStep(core::JsonReader& reader);
  /// Definition before use, equal row kinds, outputs that overlap no input (row-wise ops may work
  /// in place).
  Status CheckFlow(const PlanStep& step);
  bool Overlap(const PlanValue& a, const PlanValue& b) const;

  /// Looks the tensor up. Matrix dims are checked by the op.
  Status ParseWeight(core::JsonReader& weights, const char* role, PlanWeight* out);
  Status CheckVector(const PlanWeight& w, int64_t size);
  Status CheckMatrix(const PlanWeight& w, int64_t cols);

  /// The attributes and weights of the operator of `step`.
  Status ParseOp(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights);
  /// Outputs of one width, inputs at least as wide: a linear writes its padding columns too, which
  /// nobody reads.
  Status CheckSameCols(const PlanStep& step);
  Status ParseMap(PlanStep& step, core::JsonReader& attrs);
  Status ParseLinear(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights);
  Status ParseActivation(PlanStep& step, core::JsonReader& attrs);
  Status ParseCacheOp(PlanStep& step, core::JsonReader& attrs, core::JsonReader& weights);
  Status ParseAttention(PlanStep& step, int64_t q_cols, core::JsonReader& attrs,
                        core::JsonReader& weights);
  Status ParseRopeKvWrite(PlanStep& step, const engine::KvGroup& group, core::JsonReader& attrs,
                          core::JsonReader& weights);
  /// Norms over the heads of q and k: both or none.
  Status ParseHeadNorm(PlanStep& step, int64_t head_dim, core::JsonReader& attrs,
                       core::JsonReader& weights);

  const engine::Manifest& manifest_;
  CpuPlan& plan_;
  std::string where_;
  std::vector<bool> defined_;
  std::vector<int64_t> shape_;  ///< Of the tensor parsed last.
};

}  // namespace slipstream::exec::cpu
