#include "core/fp_env.h"

#include <xmmintrin.h>

namespace slipstream::core {

// Not inline: the compiler must see a call here, or it could move arithmetic over the change of
// MXCSR.
ScopedFpEnv::ScopedFpEnv() : saved_(_mm_getcsr()) { _mm_setcsr(kContractMxcsr); }

ScopedFpEnv::~ScopedFpEnv() { _mm_setcsr(saved_); }

}  // namespace slipstream::core
