// The floating-point environment of the numerics contract. Python hosts and audio or game engines
// often run with flush-to-zero set; results must not depend on that.
#pragma once

#include <cstdint>

namespace slipstream::core {

/// MXCSR with every exception masked, round to nearest even, and neither FTZ nor DAZ.
inline constexpr uint32_t kContractMxcsr = 0x1F80;

/// Sets the contract's environment on the calling thread and restores the caller's on destruction.
class ScopedFpEnv {
 public:
  ScopedFpEnv();
  ~ScopedFpEnv();
  ScopedFpEnv(const ScopedFpEnv&) = delete;
  ScopedFpEnv& operator=(const ScopedFpEnv&) = delete;

 private:
  uint32_t saved_;
};

}  // namespace slipstream::core
