// Attention over the paged cache: partitions of 256 absolute positions, merged left to right.
// Include a simd_*.h, kernels_rows.h and kernels_gemm.h first.
//
// A tile of up to 12 query vectors (rows x heads of one KV head) reads every K and V block of its
// context once. Lanes and positions that a query may not see take no part in any of its sums, so
// neighbours in the tile never change its bits.
#pragma once

#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

constexpr int32_t kPartition = core::kAttentionPartition;
constexpr int kQueryRows = kMaxTileRows < kMaxQueryTile ? kMaxTileRows : kMaxQueryTile;

/// What one tile works with. Query i is row i / heads_per_row, head i % heads_per_row.
struct QueryTile {
  const AttentionArgs& args;
  const AttentionItem& item;
  int32_t queries;
  int32_t dim;
  int32_t padded;  ///< dim rounded up to 16
  int64_t kv_head;
  float* panel;                  ///< [dim][queries]
  float* scores;                 ///< [queries][256]
  float* out;                    ///< [queries][padded], of the current partition
  float* merged;                 ///< [queries][padded]
  int32_t begin[kMaxQueryTile];  ///< Positions that each query sees in the current partition, from
                                 ///< its base.
  int32_t end[kMaxQueryTile];
};

static inline const std::byte* CacheBlock(const QueryTile& tile, int32_t position) {
  return tile.args.kv.pool +
         tile.item.table[position / kKvBlockTokens] * tile.args.kv.bytes_per_block;
}

template <DType T>
constexpr int64_t kElementBytes = T == DType::kF32    ? 4
                                  : T == DType::kInt8 ? 1
                                                      : 2;

/// Scores of NQ queries against NP * 16 positions of a block: chains in ascending d, scaled after.
/// `k_scales` are those of int8 positions.
template <DType T, int NQ, int NP>
void Score(const float* panel, int64_t panel_stride, const std::byte* k, const float* k_scales,
           int32_t dim, float scale, float* scores) {
  constexpr int64_t kElement = kElementBytes<T>;
  V acc[NQ][NP];
#pragma GCC unroll 16
  for (int q = 0; q < NQ; ++q) {
#pragma GCC unroll 2
    for (int j = 0; j < NP; ++j) acc[q][j] = Zero();
  }
  for (int64_t d = 0; d < dim; ++d) {
    V kv[NP];
#pragma GCC unroll 2
    for (int j = 0; j < NP; ++j) kv[j] = LoadAs<T>(k + (d * kKvBlockTokens + 16 * j) * kElement);
#pragma GCC unroll 16
    for (int q = 0; q < NQ; ++q) {
      const V qv = Set1(panel[d * panel_stride + q]);
#pragma GCC unroll 2
      for (int j = 0; j < NP; ++j) acc[q][j] = Fma(qv, kv[j], acc[q][j]);
    }
  }
#pragma GCC unroll 16
  for (int q = 0; q < NQ; ++q) {
#pragma GCC unroll 2
    for (int j = 0; j < NP; ++j) {
      V s = acc[q][j];
      if constexpr (T == DType::kInt8) s = Mul(s, Load(k_scales + 16 * j));
      Store(scores + q * kPartition + 16 * j, Mul(s, Set1(scale)));
    }
  }
}

/// out[q][16 b + i] = fma chain over the rows of V in ascending position, going on from out.
template <DType T, int NQ, int NB>
void Weigh(const float* e, const std::byte* v, int64_t v_stride, int32_t positions, float* out,
           int64_t out_stride) {
  constexpr int64_t kElement = kElementBytes<T>;
  V acc[NQ][NB];
#pragma GCC unroll 16
  for (int q = 0; q < NQ; ++q) {
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) acc[q][b] = Load(out + q * out_stride + 16 * b);
  }
  for (int32_t p = 0; p < positions; ++p) {
    V vv[NB];
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) vv[b] = LoadAs<T>(v + p * v_stride + 16 * b * kElement);
#pragma GCC unroll 16
    for (int q = 0; q < NQ; ++q) {
      const V ev = Set1(e[q * kPartition + p]);
#pragma GCC unroll 8
      for (int b = 0; b < NB; ++b) acc[q][b] = Fma(ev, vv[b], acc[q][b]);
    }
  }
#pragma GCC unroll 16
  for (int q = 0; q < NQ; ++q) {
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) Store(out + q * out_stride + 16 * b, acc[q][b]);
  }
}

template <DType T, int NQ>
static inline void ScoreBlock(int queries, const float* panel, int64_t panel_stride,
                              const std::byte* k, const float* k_scales, int32_t dim, float scale,
                              float* scores) {
  if constexpr (NQ > 0) {
    if (queries != NQ)
      return ScoreBlock<T, NQ - 1>(queries, panel, panel_stride, k, k_scales, dim, scale, scores);
    if constexpr (NQ * 2 <= kTileVectors) {
      Score<T, NQ, 2>(panel, panel_stride, k, k_scales, dim, scale, scores);
    } else {
      constexpr int64_t kElement = kElementBytes<T>;
      Score<T, NQ, 1>(panel, panel_stride, k, k_scales, dim, scale, scores);
      Score<T, NQ, 1>(panel, panel_stride, k + 16 * kElement, k_scales + 16, dim, scale,
                      scores + 16);
    }
  }
}

/// All columns of `queries` queries over positions of one block.
template <DType T, int NQ>
static inline void WeighBlock(int queries, const float* e, const std::byte* v, int64_t v_stride,
                              int32_t positions, float* out, int64_t out_stride, int32_t columns) {
  if constexpr (NQ > 0) {
    if (queries != NQ)
      return WeighBlock<T, NQ - 1>(queries, e, v, v_stride, positions, out, out_stride, columns);
    constexpr int64_t kElement = kElementBytes<T>;
    constexpr int kBlocks = TileBlocks(NQ) < 4 ? TileBlocks(NQ) : 4;
    int32_t c = 0;
    for (; c + 16 * kBlocks <= columns; c += 16 * kBlocks) {
      Weigh<T, NQ, kBlocks>(e, v + c * kElement, v_stride, positions, out + c, out_stride);
    }
    for (; c < columns; c += 16)
      Weigh<T, NQ, 1>(e, v + c * kElement, v_stride, positions, out + c, out_stride);
  }
}

/// Positions [begin, end) from `base` for queries [first, first + count).
template <DType T>
static inline void WeighRange(const QueryTile& tile, int32_t base, int32_t first, int32_t count,
                              int32_t begin, int32_t end) {
  const int64_t row_bytes = int64_t{tile.dim} * kElementBytes<T>;
  for (int32_t p = begin; p < end;) {
    const int32_t block_end = (p / kKvBlockTokens + 1) * kKvBlockTokens;
    const int32_t stop = block_end < end ? block_end : end;
    const std::byte* v = CacheBlock(tile, base + p) + tile.args.kv.v_offset +
                         (tile.kv_head * kKvBlockTokens + p % kKvBlockTokens) * row_bytes;
    for (int32_t q = 0; q < count;) {
      const int32_t now = count - q < kQueryRows ? count - q : kQueryRows;
      const int32_t query = first + q;
      WeighBlock<T, kQueryRows>(now, tile.scores + query * kPartition + p, v, row_bytes, stop - p,
                                tile.out + int64_t{query} * tile.padded, tile.padded, tile.padded);
      q += now;
    }
    p = stop;
  }
}

/// max, exp and sum of one query over its positions; its scores, capped first if asked for, become
/// exp(s - max).
static inline void Softmax(float* scores, int32_t begin, int32_t end, float softcap, float* max_out,
                           float* sum_out) {
  const int32_t first = begin / 16 * 16;
  if (softcap > 0.0f) {
    const V cap = Set1(softcap);
    for (int32_t i = first; i < end; i += 16) Store(scores + i, Softcap(Load(scores + i), cap));
  }
  for (int32_t i = first; i < begin; ++i) scores[i] = -core::kInfinity;
  const int32_t last = (end + 15) / 16 * 16;
  for (int32_t i = end; i < last; ++i) scores[i] = -core::kInfinity;
  V best = Set1(-core::kInfinity);
  for (int32_t i = first; i < last; i += 16) best = Max(Load(scores + i), best);
  const float max = ReduceMax(best);
  V sum = Zero();
  // Lanes outside of the range give exp(-inf) = +0, which changes no sum of these non-negative
  // numbers.
  for (int32_t i = first; i < last; i += 16) {
    const V e = Exp(Sub(Load(scores + i), Set1(max)));
    Store(scores + i, e);
    sum = Add(sum, e);
  }
  *max_out = max;
  *sum_out = ReduceAdd(sum);
}

/// Scores of the blocks that any query of the tile sees.
template <DType T>
static inline void ScorePartition(const QueryTile& tile, int32_t base, int32_t begin, int32_t end) {
  const KvLayer& kv = tile.args.kv;
  for (int32_t p = begin / kKvBlockTokens * kKvBlockTokens; p < end; p += kKvBlockTokens) {
    const std::byte* block = CacheBlock(tile, base + p);
    const std::byte* k =
        block + kv.k_offset + tile.kv_head * tile.dim * kKvBlockTokens * kElementBytes<T>;
    const float* scales =
        reinterpret_cast<const float*>(block + kv.k_scales) + tile.kv_head * kKvBlockTokens;
    for (int32_t q = 0; q < tile.queries;) {
      const int32_t now = tile.queries - q < kQueryRows ? tile.queries - q : kQueryRows;
      ScoreBlock<T, kQueryRows>(now, tile.panel + q, tile.queries, k, scales, tile.dim,
                                tile.args.scale, tile.scores + q * kPartition + p);
      q += now;
    }
  }
}

/// The weights of one query over int8 positions times the scales of their values: V then enters as
/// whole numbers.
static inline void ScaleWeights(const QueryTile& tile, int32_t base, int32_t query) {
  const int64_t offset = tile.args.kv.v_scales + tile.kv_head * kKvBlockTokens * 4;
  float* weights = tile.scores + int64_t{query} * kPartition;
  for (int32_t p = tile.begin[query] / 16 * 16; p < tile.end[query]; p += 16) {
    const std::byte* scales = CacheBlock(tile, base + p) + offset;
    const V v = Load(reinterpret_cast<const float*>(scales) + p % kKvBlockTokens);
    Store(weights + p, Mul(Load(weights + p), v));
  }
}

template <DType T>
static inline void WeighPartition(const QueryTile& tile, int32_t base) {
  int32_t begin = 0;
  int32_t end = kPartition;
  for (int32_t q = 0; q < tile.queries; ++q) {
    begin = tile.begin[q] > begin ? tile.begin[q] : begin;
    end = tile.end[q] < end ? tile.end[q] : end;
  }
  for (int64_t i = 0; i < int64_t{tile.queries} * tile.padded; i += 16) Store(tile.out + i, Zero());
  if (begin >= end) {  // the queries share no position here: one after the other
    for (int32_t q = 0; q < tile.queries; ++q)
      WeighRange<T>(tile, base, q, 1, tile.begin[q], tile.end[q]);
    return;
  }
  for (int32_t q = 0; q < tile.queries; ++q) WeighRange<T>(tile, base, q, 1, tile.begin[q], begin);
  WeighRange<T>(tile, base, 0, tile.queries, begin, end);
  for (int32_t q = 0; q < tile.queries; ++q) WeighRange<T>(tile, base, q, 1, end, tile.end[q]);
}

template <DType T>
static inline void AttendTile(QueryTile& tile) {
  const AttentionArgs& a = tile.args;
  const AttentionItem& item = tile.item;
  const int32_t heads = item.head_end - item.head_begin;
  float max[kMaxQueryTile];
  float sum[kMaxQueryTile];
  bool started[kMaxQueryTile];
  int32_t first[kMaxQueryTile] = {};
  int32_t position[kMaxQueryTile] = {};
  for (int32_t q = 0; q < tile.queries; ++q) {
    position[q] = item.position + q / heads;
    first[q] = a.window > 0 && position[q] >= a.window ? position[q] - a.window + 1 : 0;
    started[q] = false;
    const float* x = a.q + (item.row_begin + q / heads) * a.q_stride +
                     int64_t{item.head_begin + q % heads} * tile.dim;
    for (int64_t d = 0; d < tile.dim; ++d) tile.panel[d * tile.queries + q] = x[d];
  }
  const int32_t last = position[tile.queries - 1];
  for (int32_t base = first[0] / kPartition * kPartition; base <= last; base += kPartition) {
    int32_t begin = kPartition;
    int32_t end = 0;
    for (int32_t q = 0; q < tile.queries; ++q) {
      tile.begin[q] = first[q] > base ? first[q] - base : 0;
      tile.end[q] = position[q] + 1 - base < kPartition ? position[q] + 1 - base : kPartition;
      if (tile.begin[q] >= tile.end[q]) {
        tile.begin[q] = tile.end[q] = 0;  // sees nothing of this partition
        continue;
      }
      begin = tile.begin[q] < begin ? tile.begin[q] : begin;
      end = tile.end[q] > end ? tile.end[q] : end;
    }
    if (begin >= end) continue;
    ScorePartition<T>(tile, base, begin, end);
    float part_max[kMaxQueryTile];
    float part_sum[kMaxQueryTile];
    for (int32_t q = 0; q < tile.queries; ++q) {
      if (tile.begin[q] < tile.end[q]) {
        Softmax(tile.scores + q * kPartition, tile.begin[q], tile.end[q], a.softcap, &part_max[q],
                &part_sum[q]);
        if constexpr (T == DType::kInt8) ScaleWeights(tile, base, q);
      }
    }
    WeighPartition<T>(tile, base);
    for (int32_t q = 0; q < tile.queries; ++q) {
      if (tile.begin[q] >= tile.end[q]) continue;
      const float* out = tile.out + int64_t{q} * tile.padded;
      float* merged = tile.merged + int64_t{q} * tile.padded;
      if (!started[q]) {
        started[q] = true;
        max[q] = part_max[q];
        sum[q] = part_sum[q];
        for (int32_t d = 0; d < tile.padded; d += 16) Store(merged + d, Load(out + d));
        continue;
      }
      const float new_max = core::MaxNew(part_max[q], max[q]);
      const float old_scale = core::Exp(max[q] - new_max);
      const float new_scale = core::Exp(part_max[q] - new_max);
      sum[q] = core::Fma(part_sum[q], new_scale, sum[q] * old_scale);
      for (int32_t d = 0; d < tile.padded; d += 16) {
        Store(merged + d,
              Fma(Load(out + d), Set1(new_scale), Mul(Load(merged + d), Set1(old_scale))));
      }
      max[q] = new_max;
    }
  }
  if (a.sinks != nullptr) {
    for (int32_t q = 0; q < tile.queries; ++q) {
      const float sink = a.sinks[item.head_begin + q % heads];
      float* merged = tile.merged + int64_t{q} * tile.padded;
      const float new_max = core::MaxNew(sink, max[q]);
      const float scale = core::Exp(max[q] - new_max);
      sum[q] = core::Fma(sum[q], scale, core::Exp(sink - new_max));
      for (int32_t d = 0; d < tile.padded; d += 16)
        Store(merged + d, Mul(Load(merged + d), Set1(scale)));
    }
  }
  for (int32_t q = 0; q < tile.queries; ++q) {
    float* o = a.o + (item.row_begin + q / heads) * a.o_stride +
               int64_t{item.head_begin + q % heads} * tile.dim;
    for (int32_t d = 0; d < tile.dim; d += 16) {
      StoreN(o + d, Div(Load(tile.merged + int64_t{q} * tile.padded + d), Set1(sum[q])),
             Rest(tile.dim, d));
    }
  }
}

void Attention(const AttentionArgs& a) {
  const int32_t shared = a.heads / a.kv.kv_heads;
  const int32_t padded = (a.kv.head_dim + 15) / 16 * 16;
  for (int64_t i = a.item_begin; i < a.item_end; ++i) {
    const AttentionItem& item = a.items[i];
    float* scores = a.scratch;
    float* out = scores + kMaxQueryTile * kPartition;
    float* merged = out + kMaxQueryTile * padded;
    float* panel = merged + kMaxQueryTile * padded;
    QueryTile tile{a,
                   item,
                   (item.row_end - item.row_begin) * (item.head_end - item.head_begin),
                   a.kv.head_dim,
                   padded,
                   item.head_begin / shared,
                   panel,
                   scores,
                   out,
                   merged,
                   {},
                   {}};
    switch (a.kv.type) {
      case DType::kF32:
        AttendTile<DType::kF32>(tile);
        break;
      case DType::kF16:
        AttendTile<DType::kF16>(tile);
        break;
      case DType::kBF16:
        AttendTile<DType::kBF16>(tile);
        break;
      case DType::kInt8:
        AttendTile<DType::kInt8>(tile);
        break;
    }
  }
}

}  // namespace
}  // namespace slipstream::exec::cpu
