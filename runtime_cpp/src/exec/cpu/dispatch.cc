#include "exec/cpu/dispatch.h"

#include <string>

#include "core/cpu_features.h"

namespace slipstream::exec {

Result<const cpu::KernelTable*> KernelsOf(CpuPath path) {
  const core::CpuFeatures& features = core::HostCpuFeatures();
  switch (path) {
    case CpuPath::kScalar:
      return &cpu::kScalarKernels;
    case CpuPath::kEmulated16:
      return &cpu::kEmulated16Kernels;
    case CpuPath::kAvx2:
      if (features.avx2) return &cpu::kAvx2Kernels;
      break;
    case CpuPath::kAvx512:
      if (features.avx512) return &cpu::kAvx512Kernels;
      break;
    case CpuPath::kAuto:
      return Status(StatusCode::kInvalidArgument,
                    "The CPU path must be resolved before kernels are chosen.");
  }
  return Status(StatusCode::kIncompatible, std::string("This CPU cannot run the path '") +
                                               core::CpuPathName(path) +
                                               "'. Choose another, or auto.");
}

const core::RowMath& RowMathOf(CpuPath path) {
  const Result<const cpu::KernelTable*> kernels = KernelsOf(path);
  return kernels.ok() ? (*kernels)->row_math : core::ScalarRowMath();
}

}  // namespace slipstream::exec
