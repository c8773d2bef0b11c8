// 16 lanes as two AVX2 registers. The functions are described in simd_emulated16.h.
#pragma once

#include <immintrin.h>

#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

struct V {
  __m256 lo;  ///< Lanes 0 to 7.
  __m256 hi;
};

// 12 of the 16 registers accumulate; two hold weights and one a broadcast.
constexpr int kTileVectors = 6;
constexpr int kMaxTileRows = 6;

static inline __m256i IntBits(__m256 a) { return _mm256_castps_si256(a); }
static inline __m256 FloatOf(__m256i a) { return _mm256_castsi256_ps(a); }
/// Mask of the lanes below n, for any n.
static inline __m256i FirstLanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline V Set1(float x) {
  const __m256 a = _mm256_set1_ps(x);
  return {a, a};
}
static inline V Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline V LoadN(const float* p, int n) {
  return {_mm256_maskload_ps(p, FirstLanes(n)), _mm256_maskload_ps(p + 8, FirstLanes(n - 8))};
}
static inline void Store(float* p, V a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
static inline void StoreN(float* p, V a, int n) {
  _mm256_maskstore_ps(p, FirstLanes(n), a.lo);
  _mm256_maskstore_ps(p + 8, FirstLanes(n - 8), a.hi);
}
static inline V Add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
static inline V Sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
static inline V Mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
static inline V Div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
static inline V Neg(V a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
static inline V Fma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// maxps gives its second operand when either is NaN or both are zero: value > best ? value : best.
static inline V Max(V value, V best) {
  return {_mm256_max_ps(value.lo, best.lo), _mm256_max_ps(value.hi, best.hi)};
}
static inline V Blend(__m256 mask_lo, __m256 mask_hi, V x, V y) {
  return {_mm256_blendv_ps(y.lo, x.lo, mask_lo), _mm256_blendv_ps(y.hi, x.hi, mask_hi)};
}
static inline V SelectGt(V a, V b, V x, V y) {
  return Blend(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ), x, y);
}
static inline V SelectNan(V a, V x, V y) {
  return Blend(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q), x,
               y);
}
static inline V ScaleByPower(V p, V t) {
  return {FloatOf(_mm256_add_epi32(IntBits(p.lo), _mm256_slli_epi32(IntBits(t.lo), 23))),
          FloatOf(_mm256_add_epi32(IntBits(p.hi), _mm256_slli_epi32(IntBits(t.hi), 23)))};
}
static inline V SelectBit0(V t, V x, V y) {
  // blendv looks at the sign bit only.
  return Blend(FloatOf(_mm256_slli_epi32(IntBits(t.lo), 31)),
               FloatOf(_mm256_slli_epi32(IntBits(t.hi), 31)), x, y);
}
static inline __m256 FlipHalf(__m256 a, __m256 t, uint32_t offset) {
  const __m256i sum = _mm256_add_epi32(IntBits(t), _mm256_set1_epi32(static_cast<int>(offset)));
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(sum, _mm256_set1_epi32(2)), 30);
  return FloatOf(_mm256_xor_si256(IntBits(a), sign));
}
static inline V FlipByBit1(V a, V t, uint32_t offset) {
  return {FlipHalf(a.lo, t.lo, offset), FlipHalf(a.hi, t.hi, offset)};
}
static inline float ReduceAdd(V a) {
  const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
static inline float ReduceMax(V a) {
  // Lanes are never NaN: Max started from a number.
  const __m256 by8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
static inline uint32_t EqualMask(V a, V b) {
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ));
  return static_cast<uint32_t>(lo) | static_cast<uint32_t>(hi) << 8;
}

static inline __m256i LoadInts(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
static inline V HalfToFloat(__m256i half) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
/// 16 values below 2^16 in two registers to 16 16-bit elements in order.
static inline __m256i Narrow(__m256i lo, __m256i hi) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xD8);
}

template <DType T>
static inline V LoadAs(const void* p) {
  if constexpr (T == DType::kF32) return Load(static_cast<const float*>(p));
  if constexpr (T == DType::kInt8) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  const __m256i half = LoadInts(p);
  if constexpr (T == DType::kF16) return HalfToFloat(half);
  const __m256i lo = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(half));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(half, 1));
  return {FloatOf(_mm256_slli_epi32(lo, 16)), FloatOf(_mm256_slli_epi32(hi, 16))};
}
template <DType T>
static inline V LoadEven(const void* p) {
  const __m256i lo = LoadInts(p);
  const __m256i hi = LoadInts(static_cast<const char*>(p) + 32);
  if constexpr (T == DType::kF16) {
    const __m256i mask = _mm256_set1_epi32(0xffff);
    return HalfToFloat(Narrow(_mm256_and_si256(lo, mask), _mm256_and_si256(hi, mask)));
  }
  return {FloatOf(_mm256_slli_epi32(lo, 16)), FloatOf(_mm256_slli_epi32(hi, 16))};
}
template <DType T>
static inline V LoadOdd(const void* p) {
  const __m256i lo = LoadInts(p);
  const __m256i hi = LoadInts(static_cast<const char*>(p) + 32);
  if constexpr (T == DType::kF16)
    return HalfToFloat(Narrow(_mm256_srli_epi32(lo, 16), _mm256_srli_epi32(hi, 16)));
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {FloatOf(_mm256_and_si256(lo, mask)), FloatOf(_mm256_and_si256(hi, mask))};
}
static inline __m256i RoundToBf16(__m256 a) {
  const __m256i bits = IntBits(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_srli_epi32(IntBits(_mm256_blendv_ps(FloatOf(rounded), FloatOf(nan), is_nan)), 16);
}
template <DType T>
static inline void StoreAs16(uint16_t* p, V a) {
  if constexpr (T == DType::kF16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                     _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        Narrow(RoundToBf16(a.lo), RoundToBf16(a.hi)));
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
