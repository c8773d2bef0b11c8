// 16 lanes as one AVX-512 register. The functions are described in simd_emulated16.h.
#pragma once

#include <immintrin.h>

#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

struct V {
  __m512 v;
};

// 24 accumulators leave room for the weights and a broadcast among the 32 registers.
constexpr int kTileVectors = 24;
constexpr int kMaxTileRows = 12;

static inline __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
static inline __m512i Bits(V a) { return _mm512_castps_si512(a.v); }
static inline V FromBits(__m512i a) { return {_mm512_castsi512_ps(a)}; }

static inline V Zero() { return {_mm512_setzero_ps()}; }
static inline V Set1(float x) { return {_mm512_set1_ps(x)}; }
static inline V Load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline V LoadN(const float* p, int n) { return {_mm512_maskz_loadu_ps(FirstLanes(n), p)}; }
static inline void Store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
static inline void StoreN(float* p, V a, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), a.v); }
static inline V Add(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline V Sub(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline V Mul(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline V Div(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline V Neg(V a) {
  return FromBits(_mm512_xor_si512(Bits(a), _mm512_set1_epi32(INT32_MIN)));
}
static inline V Fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// maxps gives its second operand when either is NaN or both are zero: value > best ? value : best.
static inline V Max(V value, V best) { return {_mm512_max_ps(value.v, best.v)}; }
static inline V SelectGt(V a, V b, V x, V y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ), y.v, x.v)};
}
static inline V SelectNan(V a, V x, V y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, x.v)};
}
static inline V ScaleByPower(V p, V t) {
  return FromBits(_mm512_add_epi32(Bits(p), _mm512_slli_epi32(Bits(t), 23)));
}
static inline V SelectBit0(V t, V x, V y) {
  return {_mm512_mask_blend_ps(_mm512_test_epi32_mask(Bits(t), _mm512_set1_epi32(1)), y.v, x.v)};
}
static inline V FlipByBit1(V a, V t, uint32_t offset) {
  const __m512i sum = _mm512_add_epi32(Bits(t), _mm512_set1_epi32(static_cast<int>(offset)));
  const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(sum, _mm512_set1_epi32(2)), 30);
  return FromBits(_mm512_xor_si512(Bits(a), sign));
}
static inline float ReduceAdd(V a) {
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
static inline float ReduceMax(V a) {
  // Lanes are never NaN: Max started from a number.
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 by8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), high);
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
static inline uint32_t EqualMask(V a, V b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }

template <DType T>
static inline V LoadAs(const void* p) {
  if constexpr (T == DType::kF32) return {_mm512_loadu_ps(p)};
  if constexpr (T == DType::kInt8) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  const __m256i half = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  if constexpr (T == DType::kF16) return {_mm512_cvtph_ps(half)};
  return FromBits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
template <DType T>
static inline V LoadEven(const void* p) {
  const __m512i pairs = _mm512_loadu_si512(p);
  if constexpr (T == DType::kF16) return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs))};
  return FromBits(_mm512_slli_epi32(pairs, 16));
}
template <DType T>
static inline V LoadOdd(const void* p) {
  const __m512i pairs = _mm512_loadu_si512(p);
  if constexpr (T == DType::kF16)
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)))};
  return FromBits(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
template <DType T>
static inline void StoreAs16(uint16_t* p, V a) {
  __m256i half;
  if constexpr (T == DType::kF16) {
    half = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    const __m512i bits = Bits(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    half =
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, rounded, nan), 16));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}

}  // namespace
}  // namespace slipstream::exec::cpu
