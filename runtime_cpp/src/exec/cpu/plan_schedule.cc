// Which steps of a plan need all threads to meet first, and which serve logits only.
#include <vector>

#include "exec/cpu/plan.h"

namespace slipstream::exec::cpu {
namespace {

/// Memory that a step touches. `by_row`: thread i touches only its own rows, the same ones in every
/// step that splits rows.
struct Access {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 0;
  bool output_rows = false;
  bool by_row = false;
  bool write = false;
};

bool SplitsByRow(OpKind op) {
  return op != OpKind::kLinear && op != OpKind::kLinearGlu && op != OpKind::kRopeKvWrite &&
         op != OpKind::kAttention;
}

Access Touch(const CpuPlan& plan, const PlanStep& step, int32_t value_index, bool write) {
  const PlanValue& value = plan.values[value_index];
  const int64_t rows = value.output_rows ? plan.max_outputs : plan.max_tokens;
  Access access{value.offset,         value.offset + rows * value.stride * 4,
                value.stride,         value.output_rows,
                SplitsByRow(step.op), write};
  // select_rows writes its own rows but reads whichever were asked for.
  if (step.op == OpKind::kSelectRows && !write) access.by_row = false;
  return access;
}

bool Conflict(const Access& a, const Access& b) {
  if (!a.write && !b.write) return false;
  if (a.end <= b.begin || b.end <= a.begin) return false;
  const bool same_rows = a.by_row && b.by_row && a.begin == b.begin && a.stride == b.stride &&
                         a.output_rows == b.output_rows;
  return !same_rows;
}

/// Since logits_only steps see fewer rows than others, their row split differs.
bool SameRowCount(const PlanStep& a, const PlanStep& b) { return a.logits_only == b.logits_only; }

void MarkLogitsOnly(CpuPlan* plan) {
  std::vector<bool> needed(plan->values.size(), false);
  needed[plan->hidden] = true;
  for (size_t i = plan->steps.size(); i-- > 0;) {
    PlanStep& step = plan->steps[i];
    bool feeds_hidden = false;
    bool output_rows = true;
    for (int32_t v : step.outputs) {
      feeds_hidden = feeds_hidden || needed[v];
      output_rows = output_rows && plan->values[v].output_rows;
    }
    step.logits_only = output_rows && !feeds_hidden;
    if (step.logits_only) continue;
    for (int32_t v : step.inputs) needed[v] = true;
  }
}

}  // namespace

void ScheduleSteps(CpuPlan* plan) {
  MarkLogitsOnly(plan);
  std::vector<Access> pending;              // since the last barrier
  std::vector<const PlanStep*> pending_of;  // the step of each
  bool kv_written = false;
  for (PlanStep& step : plan->steps) {
    std::vector<Access> touched;
    for (int32_t v : step.inputs) touched.push_back(Touch(*plan, step, v, false));
    for (int32_t v : step.outputs) touched.push_back(Touch(*plan, step, v, true));
    bool barrier = step.op == OpKind::kAttention && kv_written;
    for (const Access& now : touched) {
      for (size_t i = 0; i < pending.size() && !barrier; ++i) {
        Access earlier = pending[i];
        earlier.by_row = earlier.by_row && SameRowCount(step, *pending_of[i]);
        barrier = Conflict(now, earlier);
      }
    }
    step.barrier_before = barrier;
    if (barrier) {
      pending.clear();
      pending_of.clear();
      kv_written = false;
    }
    for (const Access& now : touched) {
      pending.push_back(now);
      pending_of.push_back(&step);
    }
    kv_written = kv_written || step.op == OpKind::kRopeKvWrite;
  }
}

}  // namespace slipstream::exec::cpu
