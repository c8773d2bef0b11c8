// GEMM of every path against the scalar reference, bit for bit, and the reference against double
// precision.
#include "exec_kernel_fixture.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

/// One drawn problem. Outputs start as NaN, so that a block nobody wrote is seen.
struct Problem {
  DType type;
  int32_t rows, k, blocks;
  bool glu, with_bias;
  Activation activation;
  std::vector<float> x, bias;
  std::vector<std::byte> w;
  int64_t x_stride;

  Problem(Random& random, DType type, int32_t rows, int32_t k, int32_t blocks, bool glu,
          bool with_bias, Values values)
      : type(type),
        rows(rows),
        k(k),
        blocks(blocks),
        glu(glu),
        with_bias(with_bias),
        activation(!glu                    ? Activation::kNone
                   : random.Int(0, 1) == 1 ? Activation::kSilu
                                           : Activation::kGeluTanh),
        x_stride((k + 15) / 16 * 16) {
    const int64_t units = type == DType::kF32 ? k : (k + 1) / 2;
    const int64_t per_unit = type == DType::kF32 ? 1 : 2;
    const int64_t weight_blocks = glu ? 2 * blocks + 1 : blocks;
    x = random.Floats(rows * x_stride, values);
    w = random.Elements(weight_blocks * units * 16 * per_unit, type, values);
    bias = random.Floats(weight_blocks * 16, values);
  }

  void Run(const KernelTable& kernels, int32_t block_begin, int32_t block_end,
           std::vector<float>* y) const {
    std::vector<float> pack(kPackFloats);
    GemmArgs args;
    args.x = x.data();
    args.x_stride = x_stride;
    args.row_end = rows;
    args.k = k;
    args.w = w.data();
    args.w_type = type;
    args.bias = with_bias ? bias.data() : nullptr;
    args.y = y->data();
    args.y_stride = blocks * 16 + 16;
    args.block_begin = block_begin;
    args.block_end = block_end;
    args.activation = activation;
    args.gate_block = 0;
    args.up_block = glu ? blocks + 1 : 0;  // a block between the segments belongs to neither
    args.pack = pack.data();
    kernels.gemm(args);
  }

  std::vector<float> Output() const {
    return std::vector<float>(rows * (blocks * 16 + 16), std::nanf(""));
  }
};

TEST(Gemm, ReferenceIsADotProduct) {
  Random random(1);
  for (DType type : kAllTypes) {
    const Problem p(random, type, 3, 37, 2, false, true, Values::kNormal);
    std::vector<float> y = p.Output();
    p.Run(kScalarKernels, 0, 2, &y);
    const int64_t per_unit = type == DType::kF32 ? 1 : 2;
    const int64_t units = type == DType::kF32 ? 37 : 19;
    for (int32_t r = 0; r < 3; ++r) {
      for (int64_t n = 0; n < 32; ++n) {
        double sum = p.bias[n];
        for (int64_t k = 0; k < 37; ++k) {
          const int64_t index =
              ((n / 16 * units + k / per_unit) * 16 + n % 16) * per_unit + k % per_unit;
          float w = 0;
          if (type == DType::kF32) {
            std::memcpy(&w, &p.w[4 * index], 4);
          } else {
            uint16_t half;
            std::memcpy(&half, &p.w[2 * index], 2);
            w = type == DType::kF16 ? core::F16ToFloat(half) : core::Bf16ToFloat(half);
          }
          sum += static_cast<double>(p.x[r * p.x_stride + k]) * w;
        }
        EXPECT_NEAR(y[r * 48 + n], sum, 2e-5);
      }
    }
  }
}

TEST(Gemm, EveryRowCountMatchesTheReference) {
  Random random(2);
  for (DType type : kAllTypes) {
    for (int32_t rows = 1; rows <= 40; ++rows) {
      const bool glu = rows % 3 == 0;
      const Problem p(random, type, rows, random.Int(1, 45), random.Int(1, 11), glu, rows % 2 == 0,
                      Values::kNormal);
      std::vector<float> want = p.Output();
      p.Run(kScalarKernels, 0, p.blocks, &want);
      for (const KernelTable* path : WidePaths()) {
        std::vector<float> got = p.Output();
        p.Run(*path, 0, p.blocks, &got);
        ExpectSameBits(got, want, std::string(path->name) + " rows " + std::to_string(rows));
      }
    }
  }
}

TEST(Gemm, ExtremeValuesAndEverySplitMatchTheReference) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const DType type = kAllTypes[round % 3];
    const Problem p(random, type, random.Int(1, 30), random.Int(1, 70), random.Int(1, 12),
                    random.Int(0, 1) == 1, random.Int(0, 1) == 1, Values::kExtreme);
    std::vector<float> want = p.Output();
    p.Run(kScalarKernels, 0, p.blocks, &want);
    for (const KernelTable* path : WidePaths()) {
      std::vector<float> got = p.Output();
      const int32_t cut = random.Int(0, p.blocks);
      p.Run(*path, 0, cut, &got);
      p.Run(*path, cut, p.blocks, &got);
      ExpectSameBits(got, want, std::string(path->name) + " round " + std::to_string(round));
    }
  }
}

TEST(Gemm, RowsDoNotInfluenceEachOther) {
  // A row computed among 29 others equals the row alone.
  Random random(4);
  for (DType type : kAllTypes) {
    const Problem all(random, type, 30, 67, 5, false, false, Values::kExtreme);
    for (const KernelTable* path : WidePaths()) {
      std::vector<float> together = all.Output();
      all.Run(*path, 0, 5, &together);
      for (int32_t r : {0, 7, 13, 29}) {
        Problem one = all;
        one.rows = 1;
        one.x.assign(all.x.begin() + r * all.x_stride, all.x.begin() + (r + 1) * all.x_stride);
        std::vector<float> alone = one.Output();
        one.Run(*path, 0, 5, &alone);
        for (int32_t n = 0; n < 80; ++n) {
          ASSERT_TRUE(SameBits(alone[n], together[r * 96 + n])) << path->name << " row " << r;
        }
      }
    }
  }
}

TEST(Gemm, WideMatricesThatDoNotFitThePanelScratch) {
  // More columns than a packed panel can hold, and several chunks of panels.
  Random random(5);
  for (int32_t k : {kPackFloats / 6 + 3, kPackFloats / 25}) {
    const Problem p(random, DType::kBF16, 27, k, 1, false, false, Values::kNormal);
    std::vector<float> want = p.Output();
    p.Run(kScalarKernels, 0, 1, &want);
    for (const KernelTable* path : WidePaths()) {
      std::vector<float> got = p.Output();
      p.Run(*path, 0, 1, &got);
      ExpectSameBits(got, want, std::string(path->name) + " k " + std::to_string(k));
    }
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
