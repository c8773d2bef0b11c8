// Row functions of the numerics contract that parts outside exec/ need (the sampler): a table, so
// that a faster implementation with the same bits can be handed in.
#pragma once

#include <cstdint>

namespace slipstream::core {

struct RowMath {
  /// Index of the largest value; ties to the lower index. NaN never wins. n >= 1.
  int32_t (*argmax)(const float* x, int32_t n);
  /// log(sum(exp(x))) by the contract: chunks of 4096, each (max, sum over 16 lanes and the fixed
  /// tree), merged left to right.
  float (*log_sum_exp)(const float* x, int32_t n);
  /// y[i] = exp(x[i] * scale - shift) with the contract's exp. y may be x.
  void (*exp_shifted)(const float* x, float scale, float shift, float* y, int32_t n);
};

/// The scalar reference; runs everywhere.
const RowMath& ScalarRowMath();

}  // namespace slipstream::core
