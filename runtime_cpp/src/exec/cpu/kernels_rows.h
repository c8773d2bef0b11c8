// Row kernels over the 16-lane wrapper: functions of the contract, norms, RoPE, embedding, row
// math. Include a simd_*.h first.
#pragma once

#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

static inline V Exp(const V& x) {
  const V magic = Set1(core::kRoundMagic);
  const V t = Fma(x, Set1(core::kLog2E), magic);
  const V n = Sub(t, magic);
  V r = Fma(n, Set1(-core::kLn2Hi), x);
  r = Fma(n, Set1(-core::kLn2Lo), r);
  V p = Fma(Set1(core::kExpC6), r, Set1(core::kExpC5));
  p = Fma(p, r, Set1(core::kExpC4));
  p = Fma(p, r, Set1(core::kExpC3));
  p = Fma(p, r, Set1(core::kExpC2));
  p = Fma(p, r, Set1(1.0f));
  p = Fma(p, r, Set1(1.0f));
  V y = ScaleByPower(p, t);
  y = SelectGt(x, Set1(core::kExpMax), Set1(core::kInfinity), y);
  y = SelectGt(Set1(core::kExpMin), x, Zero(), y);
  return SelectNan(x, x, y);
}

static inline V Silu(const V& x) { return Div(x, Add(Set1(1.0f), Exp(Neg(x)))); }

static inline V GeluTanh(const V& x) {
  const V u2 = Mul(x, Fma(Mul(x, x), Set1(core::kGeluC3), Set1(core::kGeluC1)));
  return Div(x, Add(Set1(1.0f), Exp(Neg(u2))));
}

static inline V Tanh(const V& x) {
  const V a = SelectGt(Zero(), x, Neg(x), x);
  const V z = Mul(x, x);
  V p = Fma(Set1(core::kTanhC[0]), z, Set1(core::kTanhC[1]));
  p = Fma(p, z, Set1(core::kTanhC[2]));
  p = Fma(p, z, Set1(core::kTanhC[3]));
  p = Fma(p, z, Set1(core::kTanhC[4]));
  const V e = Exp(Mul(Set1(2.0f), a));
  const V y = Sub(Set1(1.0f), Div(Set1(2.0f), Add(e, Set1(1.0f))));
  const V large = SelectGt(Zero(), x, Neg(y), y);
  return SelectGt(Set1(core::kTanhSmall), a, Fma(p, Mul(z, x), x), large);
}

static inline void SinCos(const V& x, V* sin, V* cos) {
  const V magic = Set1(core::kRoundMagic);
  const V t = Fma(x, Set1(core::kTwoOverPi), magic);
  const V n = Sub(t, magic);
  V r = Fma(n, Set1(-core::kPiOver2A), x);
  r = Fma(n, Set1(-core::kPiOver2B), r);
  r = Fma(n, Set1(-core::kPiOver2C), r);
  const V z = Mul(r, r);
  V s = Fma(Set1(core::kSinC7), z, Set1(core::kSinC5));
  s = Fma(s, z, Set1(core::kSinC3));
  s = Fma(s, Mul(z, r), r);
  V c = Fma(Set1(core::kCosC8), z, Set1(core::kCosC6));
  c = Fma(c, z, Set1(core::kCosC4));
  c = Fma(c, z, Set1(-0.5f));
  c = Fma(c, z, Set1(1.0f));
  *sin = FlipByBit1(SelectBit0(t, c, s), t, 0);
  *cos = FlipByBit1(SelectBit0(t, s, c), t, 1);
}

static inline int Rest(int32_t n, int32_t i) { return n - i < 16 ? n - i : 16; }

void Embedding(const EmbeddingArgs& a) {
  const int32_t per_unit = a.type == DType::kF32 ? 1 : 2;
  const int64_t units = (a.cols + per_unit - 1) / per_unit;
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const int64_t id = a.ids[r];
    float* y = a.y + r * a.y_stride;
    const std::byte* row;
    int64_t step;  // bytes from one unit of the row to the next
    if (a.blocked) {
      row = static_cast<const std::byte*>(a.table) +
            ((id / kBlockRows) * units * kBlockRows + id % kBlockRows) * 4;
      step = kBlockRows * 4;
    } else {
      row = static_cast<const std::byte*>(a.table) + id * a.cols * (4 / per_unit);
      step = 4;
    }
    for (int32_t c = 0; c < a.cols; ++c) {
      const std::byte* p = row + (c / per_unit) * step;
      if (a.type == DType::kF32) {
        __builtin_memcpy(&y[c], p, 4);
        continue;
      }
      uint16_t bits;
      __builtin_memcpy(&bits, p + (c % 2) * 2, 2);
      y[c] = a.type == DType::kF16 ? core::F16ToFloat(bits) : core::Bf16ToFloat(bits);
    }
  }
}

/// `squares`: lane l holds the sum of x[c]^2 over c % 16 == l.
static inline void ScaleRow(const float* x, const V& squares, const float* gain, float eps,
                            int32_t cols, float* y) {
  const float mean = ReduceAdd(squares) / static_cast<float>(cols);
  const V inverse = Set1(1.0f / __builtin_sqrtf(mean + eps));
  for (int32_t c = 0; c < cols; c += 16) {
    const int n = Rest(cols, c);
    StoreN(y + c, Mul(Mul(LoadN(x + c, n), inverse), LoadN(gain + c, n)), n);
  }
}

static inline void NormHead(const float* x, const float* gain, float eps, int32_t dim, float* y) {
  V squares = Zero();
  for (int32_t c = 0; c < dim; c += 16) {
    const V s = LoadN(x + c, Rest(dim, c));
    squares = Fma(s, s, squares);
  }
  ScaleRow(x, squares, gain, eps, dim, y);
}

void Norm(const NormArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const float* x = a.x + r * a.x_stride;
    V squares = Zero();
    if (a.delta != nullptr) {
      const float* delta = a.delta + r * a.delta_stride;
      float* sum = a.sum + r * a.sum_stride;
      for (int32_t c = 0; c < a.cols; c += 16) {
        const int n = Rest(a.cols, c);
        const V s = Add(LoadN(x + c, n), LoadN(delta + c, n));
        StoreN(sum + c, s, n);
        squares = Fma(s, s, squares);
      }
      x = sum;
    } else {
      for (int32_t c = 0; c < a.cols; c += 16) {
        const V s = LoadN(x + c, Rest(a.cols, c));
        squares = Fma(s, s, squares);
      }
    }
    ScaleRow(x, squares, a.gain, a.eps, a.cols, a.y + r * a.y_stride);
  }
}

void AddRows(const AddArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    for (int32_t c = 0; c < a.cols; c += 16) {
      const int n = Rest(a.cols, c);
      StoreN(a.y + r * a.y_stride + c,
             Add(LoadN(a.a + r * a.a_stride + c, n), LoadN(a.b + r * a.b_stride + c, n)), n);
    }
  }
}

static inline V Softcap(const V& x, const V& cap) { return Mul(cap, Tanh(Div(x, cap))); }

void Map(const MapArgs& a) {
  const V factor = Set1(a.factor);
  const V cap = Set1(a.softcap);
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    for (int32_t c = 0; c < a.cols; c += 16) {
      const int n = Rest(a.cols, c);
      const V x = LoadN(a.x + r * a.x_stride + c, n);
      StoreN(a.y + r * a.y_stride + c, a.softcap > 0.0f ? Softcap(x, cap) : Mul(x, factor), n);
    }
  }
}

void RopeTable(const RopeTableArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const V position = Set1(static_cast<float>(a.positions[r]));
    for (int32_t i = 0; i < a.half; i += 16) {
      const int n = Rest(a.half, i);
      V sin, cos;
      SinCos(Mul(position, LoadN(a.inv_freq + i, n)), &sin, &cos);
      StoreN(a.cos + r * a.cos_stride + i, Mul(cos, Set1(a.factor)), n);
      StoreN(a.sin + r * a.sin_stride + i, Mul(sin, Set1(a.factor)), n);
    }
  }
}

/// Where the elements of a head go: floats side by side, or cache elements `stride` apart.
struct HeadTarget {
  void* data;
  DType type;
  int64_t stride;

  void Write(int32_t d, const V& x, int n) const {
    if (type == DType::kF32) {
      float* p = static_cast<float*>(data) + d * stride;
      if (stride == 1) {
        StoreN(p, x, n);
        return;
      }
      float lanes[16];
      Store(lanes, x);
      for (int i = 0; i < n; ++i) p[i * stride] = lanes[i];
      return;
    }
    uint16_t lanes[16];
    if (type == DType::kF16) {
      StoreAs16<DType::kF16>(lanes, x);
    } else {
      StoreAs16<DType::kBF16>(lanes, x);
    }
    uint16_t* p = static_cast<uint16_t*>(data) + d * stride;
    for (int i = 0; i < n; ++i) p[i * stride] = lanes[i];
  }
};

static inline void WriteHead(const float* x, const float* cos, const float* sin, int32_t half,
                             int32_t dim, const HeadTarget& target) {
  for (int32_t i = 0; i < half; i += 16) {
    const int n = Rest(half, i);
    const V x1 = LoadN(x + i, n);
    const V x2 = LoadN(x + half + i, n);
    const V c = LoadN(cos + i, n);
    const V s = LoadN(sin + i, n);
    target.Write(i, Fma(x1, c, Neg(Mul(x2, s))), n);
    target.Write(half + i, Fma(x2, c, Mul(x1, s)), n);
  }
  for (int32_t d = 2 * half; d < dim; d += 16) {
    const int n = Rest(dim, d);
    target.Write(d, LoadN(x + d, n), n);
  }
}

/// A head as int8 elements `stride` apart, and its scale.
static inline void QuantizeHead(const float* x, int32_t dim, int8_t* out, int64_t stride,
                                float* scale_out) {
  V best = Zero();
  for (int32_t d = 0; d < dim; d += 16) {
    const V v = LoadN(x + d, Rest(dim, d));
    best = Max(SelectGt(Zero(), v, Neg(v), v), best);
  }
  const float scale = ReduceMax(best) / core::kInt8Max;
  __builtin_memcpy(scale_out, &scale, sizeof(scale));
  const V high = Set1(core::kInt8Max);
  const V low = Set1(-core::kInt8Max);
  for (int32_t d = 0; d < dim; d += 16) {
    const int n = Rest(dim, d);
    V t = Div(LoadN(x + d, n), Set1(scale));
    t = SelectGt(t, high, high, t);
    t = SelectGt(low, t, low, t);
    t = SelectNan(t, Zero(), t);
    float lanes[16];
    Store(lanes, Add(t, Set1(core::kRoundMagic)));
    for (int i = 0; i < n; ++i) {
      const bool none = !(scale > 0.0f);
      out[(d + i) * stride] = none ? int8_t{0} : static_cast<int8_t>(core::FloatBits(lanes[i]));
    }
  }
}

void RopeKvWrite(const RopeKvArgs& a) {
  const int32_t dim = a.kv.head_dim;
  const bool int8 = a.kv.type == DType::kInt8;
  const int64_t element = a.kv.type == DType::kF32 ? 4 : int8 ? 1 : 2;
  const int64_t units = int64_t{a.heads} + 2 * a.kv.kv_heads;
  for (int64_t unit = a.unit_begin; unit < a.unit_end; ++unit) {
    const int64_t r = unit / units;
    const int64_t u = unit % units;
    const float* x = a.qkv + r * a.qkv_stride;
    const float* cos = a.cos + r * a.cos_stride;
    const float* sin = a.sin + r * a.sin_stride;
    float normed[kMaxHeadDim];
    if (u < a.heads) {
      const float* q = x + a.q_col + u * dim;
      if (a.q_gain != nullptr) {
        NormHead(q, a.q_gain, a.eps, dim, normed);
        q = normed;
      }
      WriteHead(q, cos, sin, a.half, dim, {a.q + r * a.q_stride + u * dim, DType::kF32, 1});
      continue;
    }
    const int32_t slot = a.positions[r] % kKvBlockTokens;
    std::byte* block = a.kv.pool + a.blocks[r] * a.kv.bytes_per_block;
    const bool is_k = u < a.heads + a.kv.kv_heads;
    float* scales = reinterpret_cast<float*>(block + (is_k ? a.kv.k_scales : a.kv.v_scales)) + slot;
    if (is_k) {
      const int64_t head = u - a.heads;
      std::byte* target = block + a.kv.k_offset + (head * dim * kKvBlockTokens + slot) * element;
      const float* k = x + a.k_col + head * dim;
      if (a.k_gain != nullptr) {
        NormHead(k, a.k_gain, a.eps, dim, normed);
        k = normed;
      }
      if (int8) {
        float rotated[kMaxHeadDim];
        WriteHead(k, cos, sin, a.half, dim, {rotated, DType::kF32, 1});
        QuantizeHead(rotated, dim, reinterpret_cast<int8_t*>(target), kKvBlockTokens,
                     scales + head * kKvBlockTokens);
      } else {
        WriteHead(k, cos, sin, a.half, dim, {target, a.kv.type, kKvBlockTokens});
      }
    } else {
      const int64_t head = u - a.heads - a.kv.kv_heads;
      std::byte* v = block + a.kv.v_offset + (head * kKvBlockTokens + slot) * dim * element;
      const float* values = x + a.v_col + head * dim;
      if (int8) {
        QuantizeHead(values, dim, reinterpret_cast<int8_t*>(v), 1, scales + head * kKvBlockTokens);
      } else {
        WriteHead(values, cos, sin, 0, dim, {v, a.kv.type, 1});
      }
    }
  }
}

static inline float MaxOf(const float* x, int32_t n) {
  V best = Set1(-core::kInfinity);
  int32_t i = 0;
  for (; i + 16 <= n; i += 16) best = Max(Load(x + i), best);
  float max = ReduceMax(best);
  for (; i < n; ++i) max = core::MaxNew(x[i], max);
  return max;
}

int32_t Argmax(const float* x, int32_t n) {
  const float best = MaxOf(x, n);
  const V wanted = Set1(best);
  int32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const uint32_t mask = EqualMask(Load(x + i), wanted);
    if (mask != 0) return i + __builtin_ctz(mask);
  }
  for (; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

float LogSumExp(const float* x, int32_t n) {
  core::LogSumExpState state;
  for (int32_t begin = 0; begin < n; begin += core::kVocabChunk) {
    const float* chunk = x + begin;
    const int32_t size = n - begin < core::kVocabChunk ? n - begin : core::kVocabChunk;
    const float max = MaxOf(chunk, size);
    if (max == -core::kInfinity) {
      for (int32_t i = 0; i < size; ++i) {
        if (chunk[i] != chunk[i]) return chunk[i];
      }
      continue;
    }
    V sums = Zero();
    int32_t i = 0;
    for (; i + 16 <= size; i += 16) sums = Add(sums, Exp(Sub(Load(chunk + i), Set1(max))));
    float lanes[16];
    Store(lanes, sums);
    for (; i < size; ++i) lanes[i % 16] = lanes[i % 16] + core::Exp(chunk[i] - max);
    core::MergeChunk(&state, max, core::TreeSum(lanes));
  }
  return core::FinishLogSumExp(state);
}

void ExpShifted(const float* x, float scale, float shift, float* y, int32_t n) {
  for (int32_t i = 0; i < n; i += 16) {
    const int rest = Rest(n, i);
    StoreN(y + i, Exp(Sub(Mul(LoadN(x + i, rest), Set1(scale)), Set1(shift))), rest);
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
