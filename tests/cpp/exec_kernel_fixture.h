// Shared by the kernel tests: the wide paths of this machine, random values with extremes,
// comparison bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/numerics.h"
#include "exec/cpu/dispatch.h"

namespace slipstream::exec::cpu {

/// Every path but the scalar reference that this CPU can run. emulated16 is always there.
inline std::vector<const KernelTable*> WidePaths() {
  std::vector<const KernelTable*> paths;
  for (CpuPath path : {CpuPath::kEmulated16, CpuPath::kAvx2, CpuPath::kAvx512}) {
    const Result<const KernelTable*> kernels = KernelsOf(path);
    if (kernels.ok()) paths.push_back(*kernels);
  }
  return paths;
}

enum class Values { kNormal, kExtreme };

class Random {
 public:
  explicit Random(uint32_t seed) : rng_(seed) {}

  int32_t Int(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  /// kExtreme mixes in zeros of both signs, denormals and magnitudes whose products overflow or
  /// vanish.
  float Float(Values values) {
    const float x = normal_(rng_);
    if (values == Values::kNormal) return x;
    switch (Int(0, 7)) {
      case 0:
        return std::copysign(0.0f, x);
      case 1:
        return x * 1e-40f;
      case 2:
        return x * 1e18f;
      case 3:
        return x * 1e-22f;
      default:
        return x;
    }
  }

  std::vector<float> Floats(size_t n, Values values) {
    std::vector<float> out(n);
    for (float& x : out) x = Float(values);
    return out;
  }

  /// n elements of `type`, as bytes.
  std::vector<std::byte> Elements(size_t n, core::DType type, Values values) {
    std::vector<std::byte> out(n * core::DTypeSize(type));
    for (size_t i = 0; i < n; ++i) {
      const float x = Float(values);
      if (type == core::DType::kF32) {
        std::memcpy(&out[4 * i], &x, 4);
      } else if (type == core::DType::kInt8) {
        out[i] = static_cast<std::byte>(Int(-127, 127));
      } else {
        const uint16_t half =
            type == core::DType::kF16 ? core::FloatToF16(x) : core::FloatToBf16(x);
        std::memcpy(&out[2 * i], &half, 2);
      }
    }
    return out;
  }

 private:
  std::mt19937 rng_;
  std::normal_distribution<float> normal_;
};

/// Same bits, or both NaN (the contract leaves NaN payloads open).
inline bool SameBits(float a, float b) {
  return core::FloatBits(a) == core::FloatBits(b) || (std::isnan(a) && std::isnan(b));
}

inline void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& want,
                           const std::string& where) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(SameBits(got[i], want[i]))
        << where << ": element " << i << " is " << got[i] << ", expected " << want[i];
  }
}

inline constexpr core::DType kAllTypes[] = {core::DType::kF32, core::DType::kF16,
                                            core::DType::kBF16};

/// Those of a KV cache.
inline constexpr core::DType kCacheTypes[] = {core::DType::kF32, core::DType::kF16,
                                              core::DType::kBF16, core::DType::kInt8};

}  // namespace slipstream::exec::cpu
