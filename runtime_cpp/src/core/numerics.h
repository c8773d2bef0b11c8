// Scalar reference of the functions in the numerics contract cpu-numerics/1
// (docs/design/numerics.md).
//
// Everything here is `static inline` on purpose: the kernel objects of one instruction set include
// this header, and a function with external linkage in them could be picked by the linker for code
// that runs on older CPUs. For the same reason no std:: function is used. Contraction is off in
// every build, so each operation rounds exactly as written.
#pragma once

#include <cstdint>

namespace slipstream::core {

constexpr int32_t kLanes = 16;                ///< Virtual lanes of every row reduction.
constexpr int32_t kVocabChunk = 4096;         ///< Logits per chunk of log_sum_exp.
constexpr int32_t kAttentionPartition = 256;  ///< Absolute positions per partition of attention.

constexpr float kInfinity = __builtin_inff();

constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2Hi = 0x1.62e43p-1f;
constexpr float kLn2Lo = -0x1.05c610p-29f;
constexpr float kRoundMagic =
    0x1.8p+23f;  ///< Adding it rounds |x| < 2^22 to an integer, ties to even, in the low bits.

constexpr float kExpMax = 0x1.62e42ep+6f;  ///< Above it exp gives +inf.
constexpr float kExpMin =
    -0x1.5d5894p+6f;  ///< Below it exp gives 0: results are normal numbers or 0.
constexpr float kExpC2 = 0x1.fffffcp-2f;
constexpr float kExpC3 = 0x1.55549p-3f;
constexpr float kExpC4 = 0x1.5558f4p-5f;
constexpr float kExpC5 = 0x1.123a6cp-7f;
constexpr float kExpC6 = 0x1.6a2352p-10f;

constexpr float kTanhSmall = 0.625f;  ///< Below it a polynomial, from it on by exp.
/// tanh(x) = x + x^3 * P(x^2), highest power first.
constexpr float kTanhC[5] = {-0x1.71e9fap-8f, 0x1.5142b6p-6f, -0x1.b81924p-5f, 0x1.110614p-3f,
                             -0x1.55552ep-2f};

constexpr float kGeluC1 = 0x1.988454p+0f;  ///< 2 sqrt(2 / pi)
constexpr float kGeluC3 = 0x1.2444f2p-4f;  ///< 0.044715 of it

constexpr float kTwoOverPi = 0x1.45f306p-1f;
constexpr float kPiOver2A = 0x1.921fb6p+0f;  ///< pi/2 = A + B + C.
constexpr float kPiOver2B = -0x1.777a5cp-25f;
constexpr float kPiOver2C = -0x1.ee59dap-50f;
constexpr float kSinC3 = -0x1.55554p-3f;
constexpr float kSinC5 = 0x1.1104f8p-7f;
constexpr float kSinC7 = -0x1.98837ap-13f;
constexpr float kCosC4 = 0x1.555546p-5f;
constexpr float kCosC6 = -0x1.6c0a02p-10f;
constexpr float kCosC8 = 0x1.994bf4p-16f;

constexpr float kLogLn2Hi = 0x1.62e4p-1f;  ///< 15 bits: times any exponent it is exact.
constexpr float kLogLn2Lo = 0x1.7f7d1cp-20f;
constexpr float kLogC[9] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,
                            -0x1.555c4ep-3f, 0x1.233768p-3f,  -0x1.fc2206p-4f,
                            0x1.e6f062p-4f,  -0x1.de3c1cp-4f, 0x1.1457c4p-4f};

static inline uint32_t FloatBits(float x) { return __builtin_bit_cast(uint32_t, x); }
static inline float BitsFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// a * b + c with one rounding.
static inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/// exp(x): 0 below kExpMin, +inf above kExpMax, NaN for NaN.
static inline float Exp(float x) {
  if (x != x) return x;
  if (x > kExpMax) return kInfinity;
  if (x < kExpMin) return 0.0f;
  const float t = Fma(x, kLog2E, kRoundMagic);
  const float n = t - kRoundMagic;
  float r = Fma(n, -kLn2Hi, x);
  r = Fma(n, -kLn2Lo, r);
  float p = Fma(kExpC6, r, kExpC5);
  p = Fma(p, r, kExpC4);
  p = Fma(p, r, kExpC3);
  p = Fma(p, r, kExpC2);
  p = Fma(p, r, 1.0f);
  p = Fma(p, r, 1.0f);
  return BitsFloat(FloatBits(p) + (FloatBits(t) << 23));  // times 2^n
}

/// Natural logarithm: -inf for +-0, NaN below 0, +inf for +inf.
static inline float Log(float x) {
  if (x != x || x < 0.0f) return __builtin_nanf("");
  if (x == 0.0f) return -kInfinity;
  if (x == kInfinity) return x;
  int32_t e = 0;
  if (x < 0x1p-126f) {
    x *= 0x1p+23f;
    e = -23;
  }
  // m in [sqrt(1/2), sqrt(2)): the exponent is taken relative to the bits of sqrt(1/2).
  const uint32_t bits = FloatBits(x);
  const int32_t shift = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  e += shift;
  const float m = BitsFloat(bits - (static_cast<uint32_t>(shift) << 23));
  const float f = m - 1.0f;
  const float z = f * f;
  float q = kLogC[8];
  for (int i = 7; i >= 0; --i) q = Fma(q, f, kLogC[i]);
  float r = Fma(z, -0.5f, (z * f) * q);
  const float ef = static_cast<float>(e);
  r = Fma(ef, kLogLn2Lo, r);
  r = f + r;
  return Fma(ef, kLogLn2Hi, r);
}

/// sin and cos of x, |x| <= 2^20; larger, infinite or NaN x is outside of the contract's domain.
static inline void SinCos(float x, float* sin_out, float* cos_out) {
  const float t = Fma(x, kTwoOverPi, kRoundMagic);
  const float n = t - kRoundMagic;
  float r = Fma(n, -kPiOver2A, x);
  r = Fma(n, -kPiOver2B, r);
  r = Fma(n, -kPiOver2C, r);
  const float z = r * r;
  float s = Fma(kSinC7, z, kSinC5);
  s = Fma(s, z, kSinC3);
  s = Fma(s, z * r, r);
  float c = Fma(kCosC8, z, kCosC6);
  c = Fma(c, z, kCosC4);
  c = Fma(c, z, -0.5f);
  c = Fma(c, z, 1.0f);
  const uint32_t quadrant = FloatBits(t);
  const float sv = (quadrant & 1) ? c : s;
  const float cv = (quadrant & 1) ? s : c;
  *sin_out = BitsFloat(FloatBits(sv) ^ ((quadrant & 2) << 30));
  *cos_out = BitsFloat(FloatBits(cv) ^ (((quadrant + 1) & 2) << 30));
}

/// tanh(x), +-1 for large x, +0 for -0.
static inline float Tanh(float x) {
  const float a = x < 0.0f ? -x : x;
  if (a < kTanhSmall) {
    const float z = x * x;
    float p = Fma(kTanhC[0], z, kTanhC[1]);
    for (int i = 2; i < 5; ++i) p = Fma(p, z, kTanhC[i]);
    return Fma(p, z * x, x);
  }
  const float y = 1.0f - 2.0f / (Exp(2.0f * a) + 1.0f);
  return x < 0.0f ? -y : y;
}

/// x / (1 + exp(-x)).
static inline float Silu(float x) { return x / (1.0f + Exp(-x)); }

/// The tanh approximation of GELU, 0.5 x (1 + tanh(u)), written as x / (1 + exp(-2u)): the same
/// function without the cancellation of 1 + tanh(u).
static inline float GeluTanh(float x) {
  const float u2 = x * Fma(x * x, kGeluC3, kGeluC1);
  return x / (1.0f + Exp(-u2));
}

/// Largest magnitude of the symmetric int8 of the KV cache.
constexpr float kInt8Max = 127.0f;

/// x in units of `scale` > 0, to nearest, ties to even, within +-127; 0 for NaN.
static inline int8_t QuantizeInt8(float x, float scale) {
  float t = x / scale;
  t = t > kInt8Max ? kInt8Max : t;
  t = -kInt8Max > t ? -kInt8Max : t;
  t = t != t ? 0.0f : t;
  return static_cast<int8_t>(FloatBits(t + kRoundMagic));
}

/// The larger of a new value and the maximum so far; a NaN value never wins.
static inline float MaxNew(float value, float best) { return value > best ? value : best; }

/// Sum of 16 lanes by the fixed tree 8, 4, 2, 1. Destroys `lanes`.
static inline float TreeSum(float* lanes) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

static inline float Bf16ToFloat(uint16_t bits) {
  return BitsFloat(static_cast<uint32_t>(bits) << 16);
}

/// Round to nearest even; NaN stays NaN.
static inline uint16_t FloatToBf16(float x) {
  const uint32_t bits = FloatBits(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float F16ToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, or NaN made quiet
    const uint32_t mantissa = (magnitude & 0x3ffu) << 13;
    return BitsFloat(sign | 0x7f800000u | mantissa | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (magnitude >= 0x400u) return BitsFloat(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: an exact multiple of 2^-24.
  const float value = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  return BitsFloat(sign | FloatBits(value));
}

/// Round to nearest even, subnormals kept, overflow to infinity; NaN stays NaN.
static inline uint16_t FloatToF16(float x) {
  const uint32_t bits = FloatBits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the low
                                  // bits, rounded to even
    const float shifted = BitsFloat(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

/// log(sum(exp)) so far, merged chunk by chunk.
struct LogSumExpState {
  float max = -kInfinity;
  float sum = 0.0f;
};

/// Adds a chunk with its own maximum and sum of exp(x - max). Chunks of only -inf are left out by
/// the caller.
static inline void MergeChunk(LogSumExpState* state, float max, float sum) {
  const float merged = MaxNew(max, state->max);
  const float old_scale = Exp(state->max - merged);
  const float new_scale = Exp(max - merged);
  state->sum = Fma(sum, new_scale, state->sum * old_scale);
  state->max = merged;
}

static inline float FinishLogSumExp(const LogSumExpState& state) {
  return state.max + Log(state.sum);
}

}  // namespace slipstream::core
