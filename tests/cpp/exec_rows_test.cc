// Row kernels and row math of every path against the scalar reference, bit for bit.
#include <algorithm>

#include "core/numerics.h"
#include "exec_kernel_fixture.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

TEST(Rows, NormAndAdd) {
  Random random(11);
  for (int round = 0; round < 80; ++round) {
    const Values values = round % 2 == 0 ? Values::kNormal : Values::kExtreme;
    const int32_t cols = random.Int(1, 150);
    const int32_t rows = random.Int(1, 4);
    const int64_t stride = (cols + 15) / 16 * 16;
    const std::vector<float> x = random.Floats(rows * stride, values);
    const std::vector<float> delta = random.Floats(rows * stride, values);
    const std::vector<float> gain = random.Floats(cols, values);
    const auto run = [&](const KernelTable& kernels, bool fused) {
      std::vector<float> out(3 * rows * stride, -1.0f);
      NormArgs args;
      args.x = x.data();
      args.x_stride = args.delta_stride = args.sum_stride = args.y_stride = stride;
      args.delta = fused ? delta.data() : nullptr;
      args.sum = out.data();
      args.gain = gain.data();
      args.eps = 1e-5f;
      args.y = out.data() + rows * stride;
      args.cols = cols;
      args.row_end = rows;
      kernels.norm(args);
      kernels.add({x.data(), stride, delta.data(), stride, out.data() + 2 * rows * stride, stride,
                   cols, 0, rows});
      return out;
    };
    for (const KernelTable* path : WidePaths()) {
      for (bool fused : {false, true})
        ExpectSameBits(run(*path, fused), run(kScalarKernels, fused), path->name);
    }
  }
}

TEST(Rows, ScaleAndSoftcap) {
  Random random(16);
  for (int round = 0; round < 60; ++round) {
    const Values values = round % 2 == 0 ? Values::kNormal : Values::kExtreme;
    const int32_t cols = random.Int(1, 90);
    const int32_t rows = random.Int(1, 4);
    const int64_t stride = (cols + 15) / 16 * 16;
    const std::vector<float> x = random.Floats(rows * stride, values);
    MapArgs args;
    args.x_stride = args.y_stride = stride;
    args.factor = 59.75f;
    args.softcap = round % 3 == 0 ? 0.0f : 1.5f;
    args.cols = cols;
    args.row_begin = rows > 2 ? 1 : 0;
    args.row_end = rows;
    const auto run = [&](const KernelTable& kernels, bool in_place) {
      std::vector<float> y = in_place ? x : std::vector<float>(rows * stride, -1.0f);
      args.x = in_place ? y.data() : x.data();
      args.y = y.data();
      kernels.map(args);
      return y;
    };
    for (bool in_place : {false, true}) {
      const std::vector<float> want = run(kScalarKernels, in_place);
      const float last = x[(rows - 1) * stride];
      const double exact = args.softcap > 0 ? 1.5 * std::tanh(last / 1.5) : 59.75 * last;
      EXPECT_NEAR(want[(rows - 1) * stride], exact, 1e-6 * std::fabs(exact));
      for (const KernelTable* path : WidePaths())
        ExpectSameBits(run(*path, in_place), want, path->name);
    }
  }
}

TEST(Rows, EmbeddingReadsBothLayouts) {
  Random random(12);
  for (DType type : kAllTypes) {
    for (bool blocked : {false, true}) {
      const int32_t cols = 37;
      const int32_t padded = blocked && type != DType::kF32 ? 38 : 37;
      const std::vector<std::byte> table = random.Elements(48 * padded, type, Values::kExtreme);
      const std::vector<int32_t> ids = {0, 1, 15, 16, 17, 33, 40};
      const auto run = [&](const KernelTable& kernels) {
        std::vector<float> out(ids.size() * 48, -1.0f);
        kernels.embedding({ids.data(), table.data(), type, blocked, cols, out.data(), 48, 1, 7});
        return out;
      };
      const std::vector<float> want = run(kScalarKernels);
      EXPECT_EQ(want[0], -1.0f) << "row 0 was not asked for";
      for (const KernelTable* path : WidePaths()) ExpectSameBits(run(*path), want, path->name);
    }
  }
}

TEST(Rows, RopeTable) {
  Random random(13);
  for (int32_t half : {1, 7, 16, 32, 40}) {
    std::vector<int32_t> positions = {0, 1, 2, 511, 8191, 131071, 1048575};
    std::vector<float> inv_freq(half);
    for (int32_t i = 0; i < half; ++i)
      inv_freq[i] = std::pow(10000.0f, -static_cast<float>(i) / half);
    const auto run = [&](const KernelTable& kernels) {
      std::vector<float> out(2 * 7 * 48, -1.0f);
      kernels.rope_table({positions.data(), inv_freq.data(), 1.25f, half, out.data(), 48,
                          out.data() + 7 * 48, 48, 0, 7});
      return out;
    };
    const std::vector<float> want = run(kScalarKernels);
    EXPECT_NEAR(want[4 * 48], 1.25 * std::cos(8191.0), 1e-6);
    for (const KernelTable* path : WidePaths()) ExpectSameBits(run(*path), want, path->name);
  }
}

TEST(Rows, RopeKvWriteOverEverySplit) {
  Random random(14);
  for (int round = 0; round < 60; ++round) {
    const DType type = kCacheTypes[round % 4];
    const int32_t kv_heads = random.Int(1, 3);
    const int32_t heads = kv_heads * random.Int(1, 3);
    const int32_t dim = random.Int(1, 3) * 13 + 1;
    const int32_t half = random.Int(0, dim / 2);
    const int32_t rows = random.Int(1, 5);
    const int32_t cols = (heads + 2 * kv_heads) * dim + 5;
    const std::vector<float> qkv =
        random.Floats(rows * cols, round % 3 == 0 ? Values::kExtreme : Values::kNormal);
    const std::vector<float> cos = random.Floats(rows * dim, Values::kNormal);
    const std::vector<float> sin = random.Floats(rows * dim, Values::kNormal);
    const bool normed = round % 8 < 4;
    const std::vector<float> q_gain = random.Floats(dim, Values::kNormal);
    const std::vector<float> k_gain = random.Floats(dim, Values::kNormal);
    std::vector<int32_t> positions;
    std::vector<int64_t> blocks;
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(random.Int(0, 300));
      blocks.push_back(r);
    }
    const int64_t elements = int64_t{2} * kv_heads * dim * 32 * core::DTypeSize(type);
    const int64_t scales = int64_t{kv_heads} * 32 * core::KvScaleBytes(type);
    const int64_t per_layer = elements + 2 * scales;
    const auto run = [&](const KernelTable& kernels, int64_t cut) {
      std::vector<std::byte> pool(rows * per_layer, std::byte{0x11});
      std::vector<float> q(rows * heads * dim, -1.0f);
      RopeKvArgs a;
      a.qkv = qkv.data();
      a.qkv_stride = cols;
      a.cos = cos.data();
      a.sin = sin.data();
      a.cos_stride = a.sin_stride = dim;
      a.q = q.data();
      a.q_stride = heads * dim;
      a.positions = positions.data();
      a.blocks = blocks.data();
      a.kv = {pool.data(), per_layer, 0, elements / 2, type, kv_heads, dim};
      a.kv.k_scales = elements;
      a.kv.v_scales = elements + scales;
      a.heads = heads;
      a.half = half;
      a.q_col = 5;
      a.k_col = 5 + heads * dim;
      a.v_col = 5 + (heads + kv_heads) * dim;
      if (normed) {
        a.q_gain = q_gain.data();
        a.k_gain = k_gain.data();
        a.eps = 1e-5f;
      }
      a.unit_end = cut;
      kernels.rope_kv_write(a);
      a.unit_begin = cut;
      a.unit_end = int64_t{rows} * (heads + 2 * kv_heads);
      kernels.rope_kv_write(a);
      for (std::byte b : pool) q.push_back(static_cast<float>(b));
      return q;
    };
    const std::vector<float> want = run(kScalarKernels, 0);
    for (const KernelTable* path : WidePaths()) {
      ExpectSameBits(run(*path, random.Int(0, rows * (heads + 2 * kv_heads))), want, path->name);
    }
  }
}

TEST(Rows, Int8CacheHoldsTheNearestOf255Values) {
  // One token of one head, without rotation: v as it is, k likewise.
  Random random(17);
  for (int round = 0; round < 60; ++round) {
    const int32_t dim = random.Int(1, 40);
    std::vector<float> qkv = random.Floats(3 * dim, Values::kNormal);
    for (float& x : qkv) x *= round % 2 == 0 ? 1e-3f : 50.0f;
    if (round == 3) std::fill(qkv.begin() + dim, qkv.end(), -0.0f);
    if (round == 5) std::fill(qkv.begin() + dim, qkv.end(), 1e-45f);  // Its scale is zero.
    if (round == 7) qkv[dim] = qkv[2 * dim] = core::kInfinity;
    if (round == 9) qkv[dim] = qkv[2 * dim] = std::nanf("");
    const int32_t position = random.Int(0, 31);
    const int64_t block = 0;
    const auto run = [&](const KernelTable& kernels) {
      std::vector<std::byte> pool(2 * dim * 32 + 2 * 32 * 4);
      std::vector<float> q(dim);
      RopeKvArgs a;
      a.qkv = qkv.data();
      a.qkv_stride = 3 * dim;
      a.cos = a.sin = qkv.data();
      a.q = q.data();
      a.q_stride = dim;
      a.positions = &position;
      a.blocks = &block;
      a.kv = {pool.data(), static_cast<int64_t>(pool.size()), 0, dim * 32, DType::kInt8, 1, dim};
      a.kv.k_scales = 2 * dim * 32;
      a.kv.v_scales = a.kv.k_scales + 32 * 4;
      a.heads = 1;
      a.k_col = dim;
      a.v_col = 2 * dim;
      a.unit_end = 3;
      kernels.rope_kv_write(a);
      return pool;
    };
    const std::vector<std::byte> pool = run(kScalarKernels);
    for (int which = 0; which < 2; ++which) {
      const float* x = qkv.data() + (1 + which) * dim;
      float scale;
      std::memcpy(&scale, &pool[2 * dim * 32 + which * 128 + position * 4], 4);
      float max = 0;
      for (int32_t d = 0; d < dim; ++d) max = x[d] == x[d] ? std::max(max, std::fabs(x[d])) : max;
      EXPECT_EQ(scale, max / 127.0f);
      for (int32_t d = 0; d < dim; ++d) {
        const int64_t at = which == 0 ? d * 32 + position : dim * 32 + position * dim + d;
        const int value = static_cast<int8_t>(pool[at]);
        if (round == 9 && d == 0) {
          EXPECT_EQ(value, 0) << "NaN";
        } else if (round == 5 || round == 7) {
          EXPECT_EQ(value, 0) << "no finite scale";
        } else {
          ASSERT_LE(std::abs(value), 127);
          EXPECT_LE(std::fabs(double{x[d]} - double{scale} * value), 0.5001 * scale);
        }
      }
    }
    for (const KernelTable* path : WidePaths()) EXPECT_EQ(run(*path), pool) << path->name;
  }
}

TEST(Rows, ArgmaxLogSumExpAndExp) {
  Random random(15);
  const core::RowMath& scalar = core::ScalarRowMath();
  for (int round = 0; round < 120; ++round) {
    const int32_t n = round % 10 == 0 ? random.Int(4000, 9000) : random.Int(1, 200);
    std::vector<float> x = random.Floats(n, round % 2 == 0 ? Values::kNormal : Values::kExtreme);
    if (round % 3 == 0) {
      for (float& v : x) v = std::round(v);  // many ties
    }
    if (round % 7 == 0) {
      for (int i = 0; i < n; i += 2) x[i] = -core::kInfinity;
    }
    if (round % 11 == 0) x[random.Int(0, n - 1)] = std::nanf("");
    if (round % 13 == 0) x.assign(n, -core::kInfinity);
    for (const KernelTable* path : WidePaths()) {
      const core::RowMath& wide = path->row_math;
      EXPECT_EQ(wide.argmax(x.data(), n), scalar.argmax(x.data(), n)) << path->name;
      const float got = wide.log_sum_exp(x.data(), n);
      const float want = scalar.log_sum_exp(x.data(), n);
      EXPECT_TRUE(SameBits(got, want)) << path->name << " " << got << " " << want << " n " << n;
      std::vector<float> a(n), b(n);
      wide.exp_shifted(x.data(), 0.75f, 1.5f, a.data(), n);
      scalar.exp_shifted(x.data(), 0.75f, 1.5f, b.data(), n);
      ExpectSameBits(a, b, path->name);
    }
  }
}

TEST(Rows, ExpAndSiluOverTheWholeRange) {
  // Every 65537th float, all signs, exponents, infinities and NaN.
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65537)
    x.push_back(core::BitsFloat(static_cast<uint32_t>(bits)));
  for (float v : {core::kExpMax, std::nextafter(core::kExpMax, 1000.0f), core::kExpMin,
                  std::nextafter(core::kExpMin, -1000.0f)})
    x.push_back(v);
  const int32_t n = static_cast<int32_t>(x.size());
  std::vector<float> want(n), got(n);
  for (int32_t i = 0; i < n; ++i) want[i] = core::Exp(x[i] * 1.0f - 0.0f);
  for (const KernelTable* path : WidePaths()) {
    path->row_math.exp_shifted(x.data(), 1.0f, 0.0f, got.data(), n);
    ExpectSameBits(got, want, path->name);
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
