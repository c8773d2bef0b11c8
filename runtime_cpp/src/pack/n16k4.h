// The n16k4 layout of a matrix [N, K]: the one x86 layout of float weights
// (docs/design/engine-file.md, Layouts).
//
// K is cut into units of 4 bytes (1 f32, 2 f16 or bf16) and N into blocks of 16 rows; the order is
// [block][unit][row in block][element in unit]. A matrix is a stack of segments (q, k, v; gate,
// up); each is padded with zero rows to whole blocks, and K with zeros to whole units. Packing is a
// lossless permutation of the elements' bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "slipstream/status.h"

namespace slipstream::pack {

inline constexpr int64_t kN16K4Rows = 16;      ///< Rows of a block.
inline constexpr int64_t kN16K4UnitBytes = 4;  ///< Bytes of a unit.

/// Rows of a segment with its padding. Errors: kInvalidArgument (negative or too many rows).
Result<int64_t> N16K4PaddedRows(int64_t rows);

/// Sum of the padded segments. Errors: kInvalidArgument (negative rows, overflow).
Result<int64_t> N16K4PackedRows(std::span<const int64_t> segment_rows);

/// Units of a row of `k` elements. Errors: kInvalidArgument (k < 1 or too large).
Result<int64_t> N16K4Units(core::DType dtype, int64_t k);

/// Bytes of `packed_rows` (a multiple of 16) rows of `k` elements. Errors: kInvalidArgument (shape,
/// overflow of 63 bits).
Result<uint64_t> N16K4Bytes(core::DType dtype, int64_t packed_rows, int64_t k);

/// Packs rows [0, rows) of a row-major matrix into the packed rows from `packed_row` on, and zeros
/// the rest of the last block. Segments are packed piece by piece: every piece but a segment's last
/// has a multiple of 16 rows.
///
/// `source`: rows * k elements of `dtype`, contiguous, any alignment. `packed`: the whole packed
/// matrix, or any block-aligned window of it with `packed_row` relative to the window. Thread-safe
/// for disjoint blocks. Errors: kInvalidArgument (packed_row not a multiple of 16, source size,
/// packed too small).
Status PackN16K4(core::DType dtype, int64_t rows, int64_t k, std::span<const std::byte> source,
                 int64_t packed_row, std::span<std::byte> packed);

/// The inverse: rows [packed_row, packed_row + rows) of `packed` into a contiguous row-major matrix
/// of rows * k elements. packed_row must be a multiple of 16. Errors as PackN16K4.
Status UnpackN16K4(core::DType dtype, int64_t rows, int64_t k, std::span<const std::byte> packed,
                   int64_t packed_row, std::span<std::byte> target);

}  // namespace slipstream::pack
