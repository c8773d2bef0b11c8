// The kernels of a CPU path, for the plan executor and for the sampler.
#pragma once

#include "exec/cpu/kernel_table.h"
#include "slipstream/config.h"
#include "slipstream/status.h"

namespace slipstream::exec {

/// Error: kInvalidArgument for kAuto (resolve it first), kIncompatible when the CPU lacks the path.
Result<const cpu::KernelTable*> KernelsOf(CpuPath path);

/// Row functions of a path for the sampler; same bits on every path. A path this CPU lacks gives
/// the scalar ones.
const core::RowMath& RowMathOf(CpuPath path);

}  // namespace slipstream::exec
