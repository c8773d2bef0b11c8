// The kernels of one instruction set as a table of plain functions over plain structs.
//
// Every kernel works on one thread, on the part of the work that its arguments name; the plan
// executor splits a step among the threads. No result depends on the split: that is the numerics
// contract (docs/design/numerics.md). This header is included by the objects of every instruction
// set and defines no function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/row_math.h"

namespace slipstream::exec::cpu {

constexpr int32_t kBlockRows = 16;      ///< Outputs per block of the n16k4 layout.
constexpr int32_t kKvBlockTokens = 32;  ///< Positions per KV block.
constexpr int32_t kMaxQueryTile = 12;   ///< Query vectors that one attention tile handles at once.
constexpr int32_t kPackFloats = 1 << 18;  ///< Scratch of a thread for packed activations of gemm.
/// Kernels may read, but never use, this many bytes after the last element of a KV pool.
constexpr int64_t kKvPoolPadding = 64;

enum class Activation : uint8_t { kNone, kSilu, kGeluTanh };

/// y[r, 16 b + i] = sum over k of x[r, k] * w[16 b + i, k] (+ bias), one FMA chain in ascending k
/// from +0.
struct GemmArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;  ///< In floats.
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t k = 0;
  const void* w = nullptr;  ///< n16k4
  core::DType w_type = core::DType::kF32;
  const float* bias = nullptr;  ///< One per packed row, or null.
  float* y = nullptr;
  int64_t y_stride = 0;
  int32_t block_begin = 0;  ///< Blocks of 16 columns of y.
  int32_t block_end = 0;
  /// Other than kNone: y block b = activation(weight block gate_block + b) * (weight block up_block
  /// + b).
  Activation activation = Activation::kNone;
  int32_t gate_block = 0;
  int32_t up_block = 0;
  float* pack = nullptr;  ///< kPackFloats floats, 64-aligned, of this thread alone.
};

struct EmbeddingArgs {
  const int32_t* ids = nullptr;
  const void* table = nullptr;
  core::DType type = core::DType::kF32;
  bool blocked = false;  ///< n16k4 instead of row_major
  int32_t cols = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
};

/// normed = (x * (1 / sqrt(mean(x^2) + eps))) * gain with x = residual + delta when delta is given,
/// which goes to `sum` too.
struct NormArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* delta = nullptr;
  int64_t delta_stride = 0;
  float* sum = nullptr;
  int64_t sum_stride = 0;
  const float* gain = nullptr;
  float eps = 0.0f;
  float* y = nullptr;
  int64_t y_stride = 0;
  int32_t cols = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
};

struct AddArgs {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int32_t cols = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
};

/// y = x * factor, or with a softcap c > 0: y = c * tanh(x / c).
struct MapArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  float factor = 1.0f;
  float softcap = 0.0f;
  int32_t cols = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
};

struct RopeTableArgs {
  const int32_t* positions = nullptr;
  const float* inv_freq = nullptr;  ///< [half]
  float factor = 1.0f;
  int32_t half = 0;  ///< rotary_dim / 2
  float* cos = nullptr;
  int64_t cos_stride = 0;
  float* sin = nullptr;
  int64_t sin_stride = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
};

/// The pool of one cache group, as one layer of it sees it.
struct KvLayer {
  std::byte* pool = nullptr;
  int64_t bytes_per_block = 0;
  int64_t k_offset = 0;  ///< Of this layer's K, [kv_heads][head_dim][32], inside a block.
  int64_t v_offset = 0;  ///< Of this layer's V, [kv_heads][32][head_dim].
  core::DType type = core::DType::kF32;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  /// With kInt8: f32 scales of this layer's K and V, [kv_heads][32] each, inside a block.
  int64_t k_scales = 0;
  int64_t v_scales = 0;
};

/// Heads have at most this many elements.
constexpr int32_t kMaxHeadDim = 1024;

/// Rotates q into its own value, rotates k and writes k and v to the cache. Unit u of a row: q head
/// u, then k head, then v head. With gains, the heads of q and k are normalized before they are
/// rotated, each like a row of NormArgs. With an int8 cache, each head of k (rotated) and v gets
/// the scale max|x| / 127.
struct RopeKvArgs {
  const float* qkv = nullptr;
  int64_t qkv_stride = 0;
  const float* cos = nullptr;
  int64_t cos_stride = 0;
  const float* sin = nullptr;
  int64_t sin_stride = 0;
  float* q = nullptr;
  int64_t q_stride = 0;
  const int32_t* positions = nullptr;
  const int64_t* blocks = nullptr;  ///< [rows] physical block of each row's position.
  KvLayer kv;
  int32_t heads = 0;
  int32_t half = 0;
  int32_t q_col = 0;
  int32_t k_col = 0;
  int32_t v_col = 0;
  const float* q_gain = nullptr;  ///< [head_dim], or null; k_gain is given with it.
  const float* k_gain = nullptr;
  float eps = 0.0f;
  int64_t unit_begin = 0;  ///< Units of row 0, then row 1, ...: rows * (heads + 2 kv_heads) in all.
  int64_t unit_end = 0;
};

/// One piece of attention: rows [row_begin, row_end) of one sequence at consecutive positions,
/// heads [head_begin, head_end) which share KV head head_begin / (heads / kv_heads). (row_end -
/// row_begin) * (head_end - head_begin) <= kMaxQueryTile.
struct AttentionItem {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t head_begin = 0;
  int32_t head_end = 0;
  int32_t position = 0;            ///< Of row_begin.
  const int32_t* table = nullptr;  ///< Physical blocks of the sequence, by position / 32.
};

struct AttentionArgs {
  const float* q = nullptr;
  int64_t q_stride = 0;
  float* o = nullptr;
  int64_t o_stride = 0;
  KvLayer kv;
  int32_t heads = 0;
  int32_t window = 0;  ///< 0: all earlier positions.
  float scale = 1.0f;
  float softcap = 0.0f;  ///< Above 0: scores become softcap * tanh(score / softcap).
  /// [heads], or null: a score that joins the softmax of each query of its head, without a value.
  const float* sinks = nullptr;
  const AttentionItem* items = nullptr;
  int64_t item_begin = 0;
  int64_t item_end = 0;
  float* scratch =
      nullptr;  ///< AttentionScratchFloats(head_dim) floats, 64-aligned, of this thread alone.
};

/// Per query of a tile: its vector, its scores of a partition, its output of a partition and its
/// merged output.
constexpr int64_t AttentionScratchFloats(int32_t head_dim) {
  const int64_t padded = (static_cast<int64_t>(head_dim) + 15) / 16 * 16;
  return kMaxQueryTile * (3 * padded + 256);
}

struct KernelTable {
  const char* name;
  void (*gemm)(const GemmArgs&);
  void (*embedding)(const EmbeddingArgs&);
  void (*norm)(const NormArgs&);
  void (*add)(const AddArgs&);
  void (*map)(const MapArgs&);
  void (*rope_table)(const RopeTableArgs&);
  void (*rope_kv_write)(const RopeKvArgs&);
  void (*attention)(const AttentionArgs&);
  core::RowMath row_math;
};

extern const KernelTable kScalarKernels;
extern const KernelTable kEmulated16Kernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace slipstream::exec::cpu
