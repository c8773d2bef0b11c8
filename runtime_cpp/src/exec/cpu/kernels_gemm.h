// GEMM over n16k4 weights: one FMA chain per output in ascending k. Include a simd_*.h and
// kernels_rows.h first.
//
// A register tile of MR rows x NB blocks of 16 outputs holds its accumulators for the whole of K,
// so no blocking of K is needed: per k it reads MR floats and NB vectors for MR * NB FMAs, which
// the L2 cache feeds easily. Few rows (decode) read the activations in place and stream many blocks
// at once; many rows (prefill) read them packed as [k][MR] panels.
#pragma once

#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

/// out[r * out_stride + 16 b + i] for the tile. `x`: rows `ld` floats apart, or a packed panel.
using TileFn = void (*)(const float* x, int64_t ld, const std::byte* const* w, int32_t k,
                        int64_t ahead, float* out, int64_t out_stride);

template <int MR, int NB, bool Packed, class LoadWeights>
static inline __attribute__((always_inline)) void TileStep(const float* x, int64_t ld, int64_t k,
                                                           V (&acc)[MR][NB], LoadWeights&& load) {
  V w[NB];
#pragma GCC unroll 8
  for (int b = 0; b < NB; ++b) w[b] = load(b);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const V xv = Set1(Packed ? x[k * MR + r] : x[r * ld + k]);
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) acc[r][b] = Fma(xv, w[b], acc[r][b]);
  }
}

// Rows up to which activations are read in place: with more, their addresses no longer fit the
// registers.
constexpr int kThinRows = 4;

/// Weights come from memory once, in runs too short for the prefetcher of the CPU: ask for what the
/// next tile will read. Measured on SmolLM2 bf16: batch 8 gains a quarter; a thin tile, which waits
/// for memory alone, loses an eighth, so it does not ask.
template <int MR, int NB>
static inline __attribute__((always_inline)) void Prefetch(const std::byte* const (&block)[NB],
                                                           int64_t offset) {
  if constexpr (MR > kThinRows) {
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) __builtin_prefetch(block[b] + offset, 0, 2);
  }
}

template <DType T, int MR, int NB, bool Packed>
void Tile(const float* x, int64_t ld, const std::byte* const* w, int32_t k, int64_t ahead,
          float* out, int64_t out_stride) {
  V acc[MR][NB];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) acc[r][b] = Zero();
  }
  const std::byte* block[NB];
#pragma GCC unroll 8
  for (int b = 0; b < NB; ++b) block[b] = w[b];
  if constexpr (T == DType::kF32) {
    for (int64_t i = 0; i < k; ++i) {
      Prefetch<MR, NB>(block, i * 64 + ahead);
      TileStep<MR, NB, Packed>(x, ld, i, acc, [&](int b) { return LoadAs<T>(block[b] + i * 64); });
    }
  } else {
    const int64_t units = k / 2;
    for (int64_t u = 0; u < units; ++u) {
      Prefetch<MR, NB>(block, u * 64 + ahead);
      TileStep<MR, NB, Packed>(x, ld, 2 * u, acc,
                               [&](int b) { return LoadEven<T>(block[b] + u * 64); });
      TileStep<MR, NB, Packed>(x, ld, 2 * u + 1, acc,
                               [&](int b) { return LoadOdd<T>(block[b] + u * 64); });
    }
    if (k % 2 != 0) {
      TileStep<MR, NB, Packed>(x, ld, k - 1, acc,
                               [&](int b) { return LoadEven<T>(block[b] + units * 64); });
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) Store(out + r * out_stride + 16 * b, acc[r][b]);
  }
}

constexpr int kMaxTileBlocks = 8;
// How far ahead weights are asked for, at most: less than the L2 cache holds.
constexpr int64_t kPrefetchBytes = 64 << 10;

/// Blocks that a tile of `rows` handles at once, a power of two.
constexpr int TileBlocks(int rows) {
  int blocks = 1;
  while (blocks * 2 * rows <= kTileVectors && blocks * 2 <= kMaxTileBlocks) blocks *= 2;
  return blocks;
}

template <DType T, bool Packed, int NB, int MR>
static inline TileFn PickRows(int rows) {
  if constexpr (MR == 0) {
    return nullptr;
  } else {
    if constexpr (NB <= TileBlocks(MR)) {
      if (rows == MR) return &Tile<T, MR, NB, Packed>;
    }
    return PickRows<T, Packed, NB, MR - 1>(rows);
  }
}

template <DType T, bool Packed>
static inline TileFn PickTile(int rows, int blocks) {
  constexpr int kRows = Packed ? kMaxTileRows : kThinRows;
  switch (blocks) {
    case 8:
      return PickRows<T, Packed, 8, kRows>(rows);
    case 4:
      return PickRows<T, Packed, 4, kRows>(rows);
    case 2:
      return PickRows<T, Packed, 2, kRows>(rows);
    default:
      return PickRows<T, Packed, 1, kRows>(rows);
  }
}

static inline TileFn PickTile(DType type, bool packed, int rows, int blocks) {
  switch (type) {
    case DType::kF32:
      return packed ? PickTile<DType::kF32, true>(rows, blocks)
                    : PickTile<DType::kF32, false>(rows, blocks);
    case DType::kF16:
      return packed ? PickTile<DType::kF16, true>(rows, blocks)
                    : PickTile<DType::kF16, false>(rows, blocks);
    default:
      return packed ? PickTile<DType::kBF16, true>(rows, blocks)
                    : PickTile<DType::kBF16, false>(rows, blocks);
  }
}

/// The weight blocks of a call in the order they are computed: for GLU the gate and the up block of
/// each output in turn.
struct BlockOrder {
  const GemmArgs& args;
  int64_t block_bytes;
  bool glu;
  int32_t count;

  explicit BlockOrder(const GemmArgs& a)
      : args(a),
        block_bytes((a.w_type == DType::kF32 ? int64_t{a.k} : (int64_t{a.k} + 1) / 2) * 64),
        glu(a.activation != Activation::kNone),
        count((a.block_end - a.block_begin) * (glu ? 2 : 1)) {}
  int32_t Index(int32_t i) const {
    if (!glu) return args.block_begin + i;
    return (i % 2 == 0 ? args.gate_block : args.up_block) + args.block_begin + i / 2;
  }
  const std::byte* Data(int32_t i) const {
    return static_cast<const std::byte*>(args.w) + Index(i) * block_bytes;
  }
};

/// Bias, activation and the store to y, from the accumulators of `blocks` blocks from `first` on.
static inline void Finish(const BlockOrder& order, int32_t first, int32_t blocks, const float* tile,
                          int64_t tile_stride, int32_t row, int32_t rows) {
  const GemmArgs& a = order.args;
  const auto value = [&](int32_t r, int32_t i) {
    V acc = Load(tile + r * tile_stride + 16 * i);
    if (a.bias != nullptr) acc = Add(acc, Load(a.bias + 16 * int64_t{order.Index(first + i)}));
    return acc;
  };
  for (int32_t r = 0; r < rows; ++r) {
    float* y = a.y + (row + r) * a.y_stride;
    if (order.glu) {
      for (int32_t i = 0; i < blocks; i += 2) {
        const V gate = value(r, i);
        const V active = a.activation == Activation::kSilu ? Silu(gate) : GeluTanh(gate);
        Store(y + 16 * int64_t{a.block_begin + (first + i) / 2}, Mul(active, value(r, i + 1)));
      }
    } else {
      for (int32_t i = 0; i < blocks; ++i)
        Store(y + 16 * int64_t{a.block_begin + first + i}, value(r, i));
    }
  }
}

/// All blocks from `first`, `blocks` of them, for one row tile.
static inline void RunTile(const BlockOrder& order, bool packed, const float* x, int64_t ld,
                           int32_t first, int32_t blocks, int32_t row, int32_t rows) {
  alignas(64) float tile[kMaxTileRows * kMaxTileBlocks * 16];
  const std::byte* w[kMaxTileBlocks];
  for (int32_t i = 0; i < blocks; ++i) w[i] = order.Data(first + i);
  const int64_t stride = 16 * blocks;
  const int64_t next = order.block_bytes * (order.glu ? blocks / 2 : blocks);
  const int64_t ahead = next < kPrefetchBytes ? next : kPrefetchBytes;
  for (int32_t done = 0; done < blocks;) {
    int32_t now = TileBlocks(rows);
    while (now > blocks - done) now /= 2;
    PickTile(order.args.w_type, packed, rows, now)(x, ld, w + done, order.args.k, ahead,
                                                   tile + 16 * done, stride);
    done += now;
  }
  Finish(order, first, blocks, tile, stride, row, rows);
}

/// Copies rows [row, row + rows) to a panel [k][rows].
static inline void PackPanel(const GemmArgs& a, int32_t row, int32_t rows, float* panel) {
  for (int32_t r = 0; r < rows; ++r) {
    const float* x = a.x + (row + r) * a.x_stride;
    for (int64_t k = 0; k < a.k; ++k) panel[k * rows + r] = x[k];
  }
}

void Gemm(const GemmArgs& a) {
  const BlockOrder order(a);
  const int32_t total = a.row_end - a.row_begin;
  if (total <= 0 || order.count <= 0) return;
  const bool packed = total > kThinRows && int64_t{a.k} * kMaxTileRows <= kPackFloats;
  const int32_t max_rows = packed ? kMaxTileRows : kThinRows;
  const int32_t tiles = (total + max_rows - 1) / max_rows;
  // Rows of tile t: tiles of nearly equal height waste no lanes of the register tile.
  const auto tile_row = [&](int32_t t) {
    return a.row_begin + static_cast<int32_t>(int64_t{total} * t / tiles);
  };
  const int32_t per_chunk =
      packed ? static_cast<int32_t>(kPackFloats / (int64_t{a.k} * kMaxTileRows)) : tiles;
  for (int32_t chunk = 0; chunk < tiles; chunk += per_chunk) {
    const int32_t chunk_end = chunk + per_chunk < tiles ? chunk + per_chunk : tiles;
    const int64_t panel_floats = int64_t{a.k} * kMaxTileRows;
    for (int32_t t = chunk; packed && t < chunk_end; ++t) {
      PackPanel(a, tile_row(t), tile_row(t + 1) - tile_row(t), a.pack + (t - chunk) * panel_floats);
    }
    const int32_t group = TileBlocks(tile_row(chunk + 1) - tile_row(chunk));
    const int32_t step = group < 2 ? 2 : group;
    for (int32_t first = 0; first < order.count; first += step) {
      const int32_t blocks = order.count - first < step ? order.count - first : step;
      for (int32_t t = chunk; t < chunk_end; ++t) {
        const int32_t row = tile_row(t);
        const float* x = packed ? a.pack + (t - chunk) * panel_floats : a.x + row * a.x_stride;
        RunTile(order, packed, x, a.x_stride, first, blocks, row, tile_row(t + 1) - row);
      }
    }
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
