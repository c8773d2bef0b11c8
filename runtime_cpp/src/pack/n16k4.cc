#include "pack/n16k4.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace slipstream::pack {
namespace {

// Sizes stay below 2^62, so that sums of a few of them cannot overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 62;
constexpr int64_t kBlockUnitBytes = kN16K4Rows * kN16K4UnitBytes;
// Units handled per pass over the 16 rows: 16 rows of 64 bytes, a cache line each.
constexpr int64_t kTileUnits = 16;

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, "n16k4: " + std::move(message));
}

struct Geometry {
  int64_t units = 0;        // Of a row.
  int64_t whole_units = 0;  // Without the half-filled one of an odd K.
  int64_t row_bytes = 0;    // Of a row-major row.
  int64_t first_byte = 0;   // Of packed_row in the packed buffer.
};

/// Checks everything that both directions rely on.
Result<Geometry> Check(core::DType dtype, int64_t rows, int64_t k, size_t plain_bytes,
                       int64_t packed_row, size_t packed_bytes) {
  if (packed_row < 0 || packed_row % kN16K4Rows != 0) {
    return Invalid("packed_row is " + std::to_string(packed_row) +
                   "; it must be a non-negative multiple of 16.");
  }
  const Result<int64_t> padded = N16K4PaddedRows(rows);
  if (!padded.ok()) return padded.status();
  const Result<int64_t> units = N16K4Units(dtype, k);
  if (!units.ok()) return units.status();
  int64_t end_row = 0;
  if (__builtin_add_overflow(packed_row, *padded, &end_row)) {
    return Invalid("packed_row " + std::to_string(packed_row) + " is too large.");
  }
  const Result<uint64_t> end_bytes = N16K4Bytes(dtype, end_row, k);
  if (!end_bytes.ok()) return end_bytes.status();
  if (*end_bytes > packed_bytes) {
    return Invalid("the packed buffer holds " + std::to_string(packed_bytes) + " bytes; rows " +
                   std::to_string(packed_row) + " to " + std::to_string(end_row) +
                   " of K = " + std::to_string(k) + " need " + std::to_string(*end_bytes) + ".");
  }
  Geometry geometry;
  geometry.units = *units;
  geometry.row_bytes = k * core::DTypeSize(dtype);
  geometry.whole_units = geometry.row_bytes / kN16K4UnitBytes;
  geometry.first_byte = packed_row * *units * kN16K4UnitBytes;
  // Cannot overflow: not larger than the padded size, which was checked.
  const uint64_t expected = static_cast<uint64_t>(rows) * geometry.row_bytes;
  if (plain_bytes != expected) {
    return Invalid("the row-major buffer holds " + std::to_string(plain_bytes) + " bytes; " +
                   std::to_string(rows) + " rows of " + std::to_string(k) + " " +
                   core::DTypeName(dtype) + " are " + std::to_string(expected) + ".");
  }
  return geometry;
}

}  // namespace

Result<int64_t> N16K4PaddedRows(int64_t rows) {
  if (rows < 0 || rows > kMaxBytes) {
    return Invalid("the number of rows is " + std::to_string(rows) +
                   "; it must be between 0 and 2^62.");
  }
  return (rows + kN16K4Rows - 1) / kN16K4Rows * kN16K4Rows;
}

Result<int64_t> N16K4PackedRows(std::span<const int64_t> segment_rows) {
  int64_t total = 0;
  for (int64_t rows : segment_rows) {
    const Result<int64_t> padded = N16K4PaddedRows(rows);
    if (!padded.ok()) return padded.status();
    if (__builtin_add_overflow(total, *padded, &total)) {
      return Invalid("the segments have more than 2^63 rows together.");
    }
  }
  return total;
}

Result<int64_t> N16K4Units(core::DType dtype, int64_t k) {
  if (k < 1 || k > kMaxBytes / 4) {
    return Invalid("K is " + std::to_string(k) + "; it must be between 1 and 2^60.");
  }
  const int64_t bytes = k * core::DTypeSize(dtype);
  return (bytes + kN16K4UnitBytes - 1) / kN16K4UnitBytes;
}

Result<uint64_t> N16K4Bytes(core::DType dtype, int64_t packed_rows, int64_t k) {
  if (packed_rows < 0 || packed_rows % kN16K4Rows != 0) {
    return Invalid("the number of packed rows is " + std::to_string(packed_rows) +
                   "; it must be a non-negative multiple of 16.");
  }
  const Result<int64_t> units = N16K4Units(dtype, k);
  if (!units.ok()) return units.status();
  int64_t bytes = 0;
  if (__builtin_mul_overflow(packed_rows, *units * kN16K4UnitBytes, &bytes) || bytes > kMaxBytes) {
    return Invalid("a matrix of " + std::to_string(packed_rows) + " x " + std::to_string(k) + " " +
                   core::DTypeName(dtype) + " is larger than 2^62 bytes.");
  }
  return static_cast<uint64_t>(bytes);
}

Status PackN16K4(core::DType dtype, int64_t rows, int64_t k, std::span<const std::byte> source,
                 int64_t packed_row, std::span<std::byte> packed) {
  const Result<Geometry> checked = Check(dtype, rows, k, source.size(), packed_row, packed.size());
  if (!checked.ok()) return checked.status();
  const Geometry& g = *checked;
  std::byte* block = packed.data() + g.first_byte;
  for (int64_t first = 0; first < rows; first += kN16K4Rows) {
    const int64_t filled = std::min(kN16K4Rows, rows - first);
    const std::byte* from = source.data() + first * g.row_bytes;
    if (filled < kN16K4Rows) std::memset(block, 0, g.units * kBlockUnitBytes);
    for (int64_t tile = 0; tile < g.whole_units; tile += kTileUnits) {
      const int64_t end = std::min(tile + kTileUnits, g.whole_units);
      for (int64_t row = 0; row < filled; ++row) {
        for (int64_t unit = tile; unit < end; ++unit) {
          std::memcpy(block + unit * kBlockUnitBytes + row * kN16K4UnitBytes,
                      from + row * g.row_bytes + unit * kN16K4UnitBytes, kN16K4UnitBytes);
        }
      }
    }
    if (g.whole_units <
        g.units) {  // Odd K of a 2-byte type: the second half of the last unit is zero.
      for (int64_t row = 0; row < filled; ++row) {
        std::byte* to = block + g.whole_units * kBlockUnitBytes + row * kN16K4UnitBytes;
        std::memcpy(to, from + row * g.row_bytes + g.whole_units * kN16K4UnitBytes, 2);
        std::memset(to + 2, 0, 2);
      }
    }
    block += g.units * kBlockUnitBytes;
  }
  return Status::Ok();
}

Status UnpackN16K4(core::DType dtype, int64_t rows, int64_t k, std::span<const std::byte> packed,
                   int64_t packed_row, std::span<std::byte> target) {
  const Result<Geometry> checked = Check(dtype, rows, k, target.size(), packed_row, packed.size());
  if (!checked.ok()) return checked.status();
  const Geometry& g = *checked;
  const std::byte* block = packed.data() + g.first_byte;
  for (int64_t first = 0; first < rows; first += kN16K4Rows) {
    const int64_t filled = std::min(kN16K4Rows, rows - first);
    std::byte* to = target.data() + first * g.row_bytes;
    for (int64_t tile = 0; tile < g.whole_units; tile += kTileUnits) {
      const int64_t end = std::min(tile + kTileUnits, g.whole_units);
      for (int64_t row = 0; row < filled; ++row) {
        for (int64_t unit = tile; unit < end; ++unit) {
          std::memcpy(to + row * g.row_bytes + unit * kN16K4UnitBytes,
                      block + unit * kBlockUnitBytes + row * kN16K4UnitBytes, kN16K4UnitBytes);
        }
      }
    }
    if (g.whole_units < g.units) {
      for (int64_t row = 0; row < filled; ++row) {
        std::memcpy(to + row * g.row_bytes + g.whole_units * kN16K4UnitBytes,
                    block + g.whole_units * kBlockUnitBytes + row * kN16K4UnitBytes, 2);
      }
    }
    block += g.units * kBlockUnitBytes;
  }
  return Status::Ok();
}

}  // namespace slipstream::pack
