// The kernels for avx2. This object is compiled with its own flags: nothing in it may be called
// before the CPU was checked, so it holds our headers and intrinsics only, and no symbol that the
// linker could share with other objects.
// The wrapper of the instruction set comes first; the kernels build on each other.
// clang-format off
#include "exec/cpu/simd_avx2.h"
#include "exec/cpu/kernels_rows.h"
#include "exec/cpu/kernels_gemm.h"
#include "exec/cpu/kernels_attention.h"
// clang-format on

namespace slipstream::exec::cpu {

constinit const KernelTable kAvx2Kernels = {
    "avx2", Gemm,      Embedding,   Norm,      AddRows,
    Map,    RopeTable, RopeKvWrite, Attention, {Argmax, LogSumExp, ExpShifted}};

}  // namespace slipstream::exec::cpu
