#include "core/row_math.h"

#include "core/numerics.h"

namespace slipstream::core {
namespace {

int32_t ScalarArgmax(const float* x, int32_t n) {
  float best = -kInfinity;
  for (int32_t i = 0; i < n; ++i) best = MaxNew(x[i], best);
  for (int32_t i = 0; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

float ScalarLogSumExp(const float* x, int32_t n) {
  LogSumExpState state;
  for (int32_t begin = 0; begin < n; begin += kVocabChunk) {
    const int32_t end = n - begin < kVocabChunk ? n : begin + kVocabChunk;
    float max = -kInfinity;
    bool nan = false;
    for (int32_t i = begin; i < end; ++i) {
      max = MaxNew(x[i], max);
      nan = nan || x[i] != x[i];
    }
    if (nan) return __builtin_nanf("");
    if (max == -kInfinity) continue;
    float lanes[kLanes] = {};
    for (int32_t i = begin; i < end; ++i) {
      lanes[i % kLanes] = lanes[i % kLanes] + Exp(x[i] - max);
    }
    MergeChunk(&state, max, TreeSum(lanes));
  }
  return FinishLogSumExp(state);
}

void ScalarExpShifted(const float* x, float scale, float shift, float* y, int32_t n) {
  for (int32_t i = 0; i < n; ++i) y[i] = Exp(x[i] * scale - shift);
}

}  // namespace

const RowMath& ScalarRowMath() {
  static constexpr RowMath kTable = {ScalarArgmax, ScalarLogSumExp, ScalarExpShifted};
  return kTable;
}

}  // namespace slipstream::core
