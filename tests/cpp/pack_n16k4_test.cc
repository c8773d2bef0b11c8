#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "pack/n16k4.h"

namespace slipstream::pack {
namespace {

using core::DType;

std::vector<std::byte> RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// The definition of the layout, element by element, as the document states it.
size_t PackedByte(DType dtype, int64_t k, int64_t packed_row, int64_t column) {
  const int64_t per_unit = 4 / core::DTypeSize(dtype);
  const int64_t units = (k + per_unit - 1) / per_unit;
  const int64_t element =
      (((packed_row / 16) * units + column / per_unit) * 16 + packed_row % 16) * per_unit +
      column % per_unit;
  return static_cast<size_t>(element * core::DTypeSize(dtype));
}

TEST(N16K4, SegmentsFollowTheDefinitionAndUnpackToTheSameBits) {
  const std::vector<std::vector<int64_t>> cases = {{16},        {1},         {17},     {48, 16, 16},
                                                   {5, 40, 33}, {100, 0, 7}, {64, 64}, {15, 1}};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t k : {1, 2, 3, 15, 16, 31, 32, 33, 100}) {
      for (const std::vector<int64_t>& segments : cases) {
        const int64_t packed_rows = *N16K4PackedRows(segments);
        const int64_t size = core::DTypeSize(dtype);
        // Garbage at first: padding must be written, not assumed.
        std::vector<std::byte> packed = RandomBytes(*N16K4Bytes(dtype, packed_rows, k), 99);
        std::vector<std::byte> expected(packed.size(), std::byte{0});
        int64_t first = 0;
        for (size_t s = 0; s < segments.size(); ++s) {
          const int64_t rows = segments[s];
          const auto source = RandomBytes(rows * k * size, static_cast<uint32_t>(s + k));
          ASSERT_TRUE(PackN16K4(dtype, rows, k, source, first, packed).ok());
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < k; ++column) {
              std::memcpy(&expected[PackedByte(dtype, k, first + row, column)],
                          &source[(row * k + column) * size], size);
            }
          }
          std::vector<std::byte> back(source.size());
          ASSERT_TRUE(UnpackN16K4(dtype, rows, k, packed, first, back).ok());
          EXPECT_EQ(back, source);
          first += *N16K4PaddedRows(rows);
        }
        EXPECT_EQ(packed, expected) << core::DTypeName(dtype) << " K " << k;
      }
    }
  }
}

TEST(N16K4, PiecesGiveTheBytesOfTheWhole) {
  constexpr int64_t kRows = 203, kCols = 77;
  const auto source = RandomBytes(kRows * kCols * 2, 5);
  std::vector<std::byte> whole(*N16K4Bytes(DType::kBF16, *N16K4PaddedRows(kRows), kCols));
  ASSERT_TRUE(PackN16K4(DType::kBF16, kRows, kCols, source, 0, whole).ok());
  for (int64_t piece : {16, 32, 64, 192}) {
    std::vector<std::byte> packed(whole.size());
    for (int64_t row = 0; row < kRows; row += piece) {
      const int64_t rows = std::min(piece, kRows - row);
      const auto part = std::span(source).subspan(row * kCols * 2, rows * kCols * 2);
      ASSERT_TRUE(PackN16K4(DType::kBF16, rows, kCols, part, row, packed).ok());
    }
    EXPECT_EQ(packed, whole);
  }
}

TEST(N16K4, RefusesWrongShapesAndSizes) {
  std::vector<std::byte> source(16 * 4 * 4);
  std::vector<std::byte> packed(16 * 4 * 4);
  const auto code = [&](int64_t rows, int64_t k, int64_t row, size_t source_size, size_t size) {
    return PackN16K4(DType::kF32, rows, k, std::span(source).first(source_size), row,
                     std::span(packed).first(size))
        .code();
  };
  EXPECT_EQ(code(16, 4, 0, 256, 256), StatusCode::kOk);
  EXPECT_EQ(code(16, 4, 0, 255, 256), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(16, 4, 0, 256, 255), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(16, 4, 8, 256, 256), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(16, 4, 16, 256, 256), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(16, 4, -16, 256, 256), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(-1, 4, 0, 256, 256), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(16, 0, 0, 0, 256), StatusCode::kInvalidArgument);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (int64_t huge : {kMax, kMax - 15, int64_t{1} << 62, int64_t{1} << 61, int64_t{1} << 32}) {
    EXPECT_EQ(code(huge, huge, 0, 256, 256), StatusCode::kInvalidArgument);
    EXPECT_EQ(code(16, 4, huge / 16 * 16, 256, 256), StatusCode::kInvalidArgument);
    EXPECT_EQ(code(huge, 4, 0, 256, 256), StatusCode::kInvalidArgument);
    EXPECT_FALSE(N16K4Bytes(DType::kF32, huge / 16 * 16, huge).ok());
  }
  const std::vector<int64_t> many(4, int64_t{1} << 62);
  EXPECT_FALSE(N16K4PackedRows(many).ok());
}

}  // namespace
}  // namespace slipstream::pack
