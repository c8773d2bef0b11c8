#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "pack/hash.h"

namespace slipstream::pack {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Expected values from the Python package xxhash (xxh3_128_hexdigest).
TEST(Hash128, KnownValues) {
  EXPECT_EQ(Xxh3_128({}).Hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Xxh3_128(Bytes("slipstream")).Hex(), "63f9f3930839dcc0522c95da000aca3d");
  std::string counting;
  for (int i = 0; i < 4096; ++i) counting.push_back(static_cast<char>(i % 251));
  EXPECT_EQ(Xxh3_128(Bytes(counting)).Hex(), "e12cd72144990fe57135ffa504f1bc71");
}

TEST(Hash128, StreamEqualsOneShotHoweverItIsCut) {
  std::string data;
  for (int i = 0; i < 10000; ++i) data.push_back(static_cast<char>(i * 7919 >> 3));
  for (size_t piece : {1u, 63u, 256u, 1024u, 9999u, 20000u}) {
    Xxh3Stream stream;
    for (size_t at = 0; at < data.size(); at += piece) {
      stream.Update(Bytes(std::string_view(data).substr(at, piece)));
      EXPECT_EQ(stream.Digest(), Xxh3_128(Bytes(std::string_view(data).substr(0, at + piece))));
    }
  }
}

}  // namespace
}  // namespace slipstream::pack
