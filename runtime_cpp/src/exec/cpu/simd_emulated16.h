// 16 virtual lanes in plain C++: runs everywhere and proves the wide kernels. Included once, by
// kernels_emulated16.cc, like its siblings for AVX2 and AVX-512, which define the same functions.
#pragma once

#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

/// 16 floats.
struct V {
  float v[16];
};

/// Accumulators of 16 floats that a register tile may hold.
constexpr int kTileVectors = 6;
constexpr int kMaxTileRows = 6;

template <class F>
static inline V MakeV(F&& f) {
  V out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}

static inline V Zero() { return V{}; }
static inline V Set1(float x) {
  return MakeV([&](int) { return x; });
}
static inline V Load(const float* p) {
  return MakeV([&](int i) { return p[i]; });
}
/// The first n lanes; the others are 0 and their memory is not read.
static inline V LoadN(const float* p, int n) {
  return MakeV([&](int i) { return i < n ? p[i] : 0.0f; });
}
static inline void Store(float* p, const V& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
static inline void StoreN(float* p, const V& a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
static inline V Add(const V& a, const V& b) {
  return MakeV([&](int i) { return a.v[i] + b.v[i]; });
}
static inline V Sub(const V& a, const V& b) {
  return MakeV([&](int i) { return a.v[i] - b.v[i]; });
}
static inline V Mul(const V& a, const V& b) {
  return MakeV([&](int i) { return a.v[i] * b.v[i]; });
}
static inline V Div(const V& a, const V& b) {
  return MakeV([&](int i) { return a.v[i] / b.v[i]; });
}
static inline V Neg(const V& a) {
  return MakeV([&](int i) { return -a.v[i]; });
}
static inline V Fma(const V& a, const V& b, const V& c) {
  return MakeV([&](int i) { return core::Fma(a.v[i], b.v[i], c.v[i]); });
}
/// value > best ? value : best, so that NaN never wins.
static inline V Max(const V& value, const V& best) {
  return MakeV([&](int i) { return core::MaxNew(value.v[i], best.v[i]); });
}
/// a > b ? x : y
static inline V SelectGt(const V& a, const V& b, const V& x, const V& y) {
  return MakeV([&](int i) { return a.v[i] > b.v[i] ? x.v[i] : y.v[i]; });
}
/// a is NaN ? x : y
static inline V SelectNan(const V& a, const V& x, const V& y) {
  return MakeV([&](int i) { return a.v[i] != a.v[i] ? x.v[i] : y.v[i]; });
}
/// p * 2^n for t = n + kRoundMagic.
static inline V ScaleByPower(const V& p, const V& t) {
  return MakeV([&](int i) {
    return core::BitsFloat(core::FloatBits(p.v[i]) + (core::FloatBits(t.v[i]) << 23));
  });
}
/// Bit 0 of t's bits ? x : y
static inline V SelectBit0(const V& t, const V& x, const V& y) {
  return MakeV([&](int i) { return (core::FloatBits(t.v[i]) & 1) != 0 ? x.v[i] : y.v[i]; });
}
/// Flips the sign of a where bit 1 of (t's bits + offset) is set.
static inline V FlipByBit1(const V& a, const V& t, uint32_t offset) {
  return MakeV([&](int i) {
    return core::BitsFloat(core::FloatBits(a.v[i]) ^
                           (((core::FloatBits(t.v[i]) + offset) & 2) << 30));
  });
}
/// The fixed tree 8, 4, 2, 1.
static inline float ReduceAdd(V a) { return core::TreeSum(a.v); }
static inline float ReduceMax(const V& a) {
  float best = -core::kInfinity;
  for (int i = 0; i < 16; ++i) best = core::MaxNew(a.v[i], best);
  return best;
}
/// Bit i: lane i of a equals that of b.
static inline uint32_t EqualMask(const V& a, const V& b) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= a.v[i] == b.v[i] ? 1u << i : 0u;
  return mask;
}

template <DType T>
static inline float Element(const void* p, int64_t i) {
  if constexpr (T == DType::kF32) return static_cast<const float*>(p)[i];
  if constexpr (T == DType::kF16) return core::F16ToFloat(static_cast<const uint16_t*>(p)[i]);
  if constexpr (T == DType::kBF16) return core::Bf16ToFloat(static_cast<const uint16_t*>(p)[i]);
  if constexpr (T == DType::kInt8) return static_cast<float>(static_cast<const int8_t*>(p)[i]);
}
/// 16 consecutive elements from `p`.
template <DType T>
static inline V LoadAs(const void* p) {
  return MakeV([&](int i) { return Element<T>(p, i); });
}
/// Elements 0, 2, 4, ... of 32 16-bit elements: the first k of a unit of n16k4.
template <DType T>
static inline V LoadEven(const void* p) {
  return MakeV([&](int i) { return Element<T>(p, 2 * i); });
}
template <DType T>
static inline V LoadOdd(const void* p) {
  return MakeV([&](int i) { return Element<T>(p, 2 * i + 1); });
}
/// Rounds 16 lanes to 16-bit elements.
template <DType T>
static inline void StoreAs16(uint16_t* p, const V& a) {
  for (int i = 0; i < 16; ++i)
    p[i] = T == DType::kF16 ? core::FloatToF16(a.v[i]) : core::FloatToBf16(a.v[i]);
}

}  // namespace
}  // namespace slipstream::exec::cpu
