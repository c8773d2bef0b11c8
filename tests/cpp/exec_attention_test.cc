// Attention of every path, tiling and split against the scalar reference, and the reference against
// double precision.
#include <algorithm>
#include <numeric>

#include "exec_kernel_fixture.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;

/// A sequence with a random block table over a pool whose unused parts hold NaN.
struct Problem {
  DType type;
  int32_t heads, kv_heads, dim, window, context, rows;
  int64_t q_stride;
  std::vector<float> q;
  std::vector<std::byte> pool;
  std::vector<int32_t> table;
  int64_t bytes_per_block;
  int64_t element_bytes;  ///< Of a block, without the scales.
  float softcap = 0.0f;
  std::vector<float> sinks;

  Problem(Random& random, DType type, int32_t kv_heads, int32_t group, int32_t dim, int32_t window,
          int32_t context, int32_t rows, Values values)
      : type(type),
        heads(kv_heads * group),
        kv_heads(kv_heads),
        dim(dim),
        window(window),
        context(context),
        rows(rows) {
    q_stride = heads * dim + 3;
    q = random.Floats(rows * q_stride, values);
    const int32_t blocks = (context + 31) / 32;
    element_bytes = int64_t{2} * kv_heads * dim * 32 * core::DTypeSize(type);
    bytes_per_block = element_bytes + int64_t{2} * kv_heads * 32 * core::KvScaleBytes(type);
    pool = random.Elements((blocks + 2) * bytes_per_block / core::DTypeSize(type), type, values);
    pool.resize(pool.size() + kKvPoolPadding, std::byte{0xff});
    if (type == DType::kInt8) {
      for (int64_t at = 0; at < (blocks + 2) * bytes_per_block; at += bytes_per_block) {
        for (int64_t i = element_bytes; i < bytes_per_block; i += 4) {
          const float scale = std::fabs(random.Float(values)) / 100;
          std::memcpy(&pool[at + i], &scale, 4);
        }
      }
    }
    table.resize(blocks + 2);
    std::iota(table.begin(), table.end(), 0);
    for (int32_t i = blocks + 1; i > 0; --i) std::swap(table[i], table[random.Int(0, i)]);
    // Positions after the last one, and two whole blocks, hold NaN: nothing of them may be used.
    for (int32_t p = context; p < (blocks + 2) * 32; ++p) {
      for (int32_t h = 0; h < kv_heads; ++h) {
        for (int32_t d = 0; d < dim; ++d) {
          Poison(KIndex(p, h, d));
          Poison(VIndex(p, h, d));
        }
        if (type == DType::kInt8) {
          std::memset(&pool[ScaleIndex(p, h, 0)], 0xff, 4);
          std::memset(&pool[ScaleIndex(p, h, 1)], 0xff, 4);
        }
      }
    }
  }

  int64_t KIndex(int32_t p, int32_t h, int32_t d) const {
    return Block(p) + (int64_t{h} * dim + d) * 32 + p % 32;
  }
  int64_t VIndex(int32_t p, int32_t h, int32_t d) const {
    return Block(p) + int64_t{kv_heads} * dim * 32 + (int64_t{h} * 32 + p % 32) * dim + d;
  }
  /// Byte of the scale of K (0) or V (1).
  int64_t ScaleIndex(int32_t p, int32_t h, int32_t which) const {
    return table[p / 32] * bytes_per_block + element_bytes +
           ((int64_t{which} * kv_heads + h) * 32 + p % 32) * 4;
  }
  double Scale(int32_t p, int32_t h, int32_t which) const {
    if (type != DType::kInt8) return 1.0;
    float scale;
    std::memcpy(&scale, &pool[ScaleIndex(p, h, which)], 4);
    return scale;
  }
  int64_t Block(int32_t p) const { return table[p / 32] * bytes_per_block / core::DTypeSize(type); }
  void Poison(int64_t index) {
    std::memset(&pool[index * core::DTypeSize(type)], 0xff, core::DTypeSize(type));
  }
  double Element(int64_t index) const {
    if (type == DType::kF32) {
      float x;
      std::memcpy(&x, &pool[4 * index], 4);
      return x;
    }
    if (type == DType::kInt8) return static_cast<int8_t>(pool[index]);
    uint16_t half;
    std::memcpy(&half, &pool[2 * index], 2);
    return type == DType::kF16 ? core::F16ToFloat(half) : core::Bf16ToFloat(half);
  }

  /// The last `rows` positions of the context, in tiles of at most `tile_rows` x `tile_heads`.
  std::vector<float> Run(const KernelTable& kernels, int32_t tile_rows, int32_t tile_heads) {
    std::vector<AttentionItem> items;
    const int32_t group = heads / kv_heads;
    for (int32_t r = 0; r < rows; r += tile_rows) {
      for (int32_t g = 0; g < kv_heads; ++g) {
        for (int32_t h = 0; h < group; h += tile_heads) {
          items.push_back({r, std::min(rows, r + tile_rows), g * group + h,
                           g * group + std::min(group, h + tile_heads), context - rows + r,
                           table.data()});
        }
      }
    }
    std::vector<float> o(rows * q_stride, -1.0f);
    std::vector<float> scratch(AttentionScratchFloats(dim));
    AttentionArgs a;
    a.q = q.data();
    a.q_stride = a.o_stride = q_stride;
    a.o = o.data();
    a.kv = {pool.data(), bytes_per_block, 0, element_bytes / 2, type, kv_heads, dim};
    a.kv.k_scales = element_bytes;
    a.kv.v_scales = element_bytes + (bytes_per_block - element_bytes) / 2;
    a.heads = heads;
    a.window = window;
    a.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    a.softcap = softcap;
    a.sinks = sinks.empty() ? nullptr : sinks.data();
    a.items = items.data();
    a.item_end = static_cast<int64_t>(items.size());
    a.scratch = scratch.data();
    kernels.attention(a);
    return o;
  }
};

TEST(Attention, ReferenceIsSoftmaxAttention) {
  Random random(21);
  for (DType type : kCacheTypes) {
    for (int32_t window : {0, 100, 101}) {
      Problem p(random, type, 2, 2, 16, window, 700, 2, Values::kNormal);
      // One case with capped scores and sinks: they join the softmax without a value.
      if (window == 101) {
        p.softcap = 1.5f;
        p.sinks = {0.5f, -2.0f, 4.0f, 1.0f};
      }
      const std::vector<float> o = p.Run(kScalarKernels, 1, 1);
      for (int32_t r = 0; r < 2; ++r) {
        for (int32_t h = 0; h < 4; ++h) {
          const int32_t query = 698 + r;
          const int32_t first = window > 0 ? query - window + 1 : 0;
          std::vector<double> s;
          for (int32_t pos = first; pos <= query; ++pos) {
            double dot = 0;
            for (int32_t d = 0; d < 16; ++d)
              dot += p.q[r * p.q_stride + h * 16 + d] * p.Element(p.KIndex(pos, h / 2, d)) *
                     p.Scale(pos, h / 2, 0);
            const double capped = p.softcap * std::tanh(dot / 4 / p.softcap);
            s.push_back(std::exp(p.softcap > 0 ? capped : dot / 4));
          }
          const double sink = p.sinks.empty() ? 0.0 : std::exp(p.sinks[h]);
          const double total = std::accumulate(s.begin(), s.end(), sink);
          for (int32_t d = 0; d < 16; ++d) {
            double want = 0;
            for (int32_t pos = first; pos <= query; ++pos)
              want += s[pos - first] / total * p.Element(p.VIndex(pos, h / 2, d)) *
                      p.Scale(pos, h / 2, 1);
            EXPECT_NEAR(o[r * p.q_stride + h * 16 + d], want, 2e-6);
          }
        }
      }
    }
  }
}

TEST(Attention, EveryPathAndTilingMatchesTheReference) {
  Random random(22);
  for (int round = 0; round < 120; ++round) {
    const int32_t context = round % 3 == 0 ? random.Int(1, 60) : random.Int(200, 600);
    const int32_t rows = std::min(context, random.Int(1, 14));
    const int32_t window = round % 5 == 0 ? random.Int(1, context + 5) : 0;
    const int32_t group = random.Int(1, 5);
    Problem p(random, kCacheTypes[round % 4], random.Int(1, 2), group,
              random.Int(1, 5) * (round % 2 == 0 ? 16 : 7), window, context, rows,
              round % 7 == 0 ? Values::kExtreme : Values::kNormal);
    if (round % 3 == 1) p.softcap = random.Int(1, 50);
    if (round % 5 > 2) p.sinks = random.Floats(p.heads, Values::kNormal);
    const std::vector<float> want = p.Run(kScalarKernels, 1, 1);
    for (const KernelTable* path : WidePaths()) {
      for (int32_t tile_heads : {1, group}) {
        const int32_t tile_rows = random.Int(1, kMaxQueryTile / tile_heads);
        ExpectSameBits(p.Run(*path, tile_rows, tile_heads), want,
                       std::string(path->name) + " round " + std::to_string(round) + " tile " +
                           std::to_string(tile_rows));
      }
    }
  }
}

TEST(Attention, RowsAcrossAPartitionBorder) {
  // Rows 250..261 of one tile: some see one partition only; with a window, some see only the
  // second.
  Random random(23);
  for (int32_t window : {0, 3, 257}) {
    for (DType type : {DType::kBF16, DType::kInt8}) {
      Problem p(random, type, 1, 1, 32, window, 262, 12, Values::kNormal);
      const std::vector<float> want = p.Run(kScalarKernels, 1, 1);
      for (const KernelTable* path : WidePaths())
        ExpectSameBits(p.Run(*path, 12, 1), want, path->name);
    }
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
