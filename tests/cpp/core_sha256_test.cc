#include <gtest/gtest.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "core/sha256.h"
#include "slipstream/status.h"

namespace slipstream::core {
namespace {

std::string Hex(std::string_view text) {
  std::string hex;
  for (uint8_t byte : Sha256(std::as_bytes(std::span<const char>(text.data(), text.size())))) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  return hex;
}

TEST(Sha256, ExamplesOfTheStandard) {
  EXPECT_EQ(Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the borders of a block and of the padding, folded into one value (from
// Python's hashlib).
TEST(Sha256, LengthsAroundTheBlockSize) {
  std::string chained;
  for (int length = 0; length < 200; ++length) {
    chained = Hex(chained + std::string(length, static_cast<char>('a' + length % 26)));
  }
  EXPECT_EQ(chained, "3c73d3bdeb11a734d1b7b56e0abedc700f014159bca9762760d42701ab14fe60");
}

TEST(StatusCodeName, IsStable) {
  EXPECT_STREQ(StatusCodeName(StatusCode::kOk), "OK");
  EXPECT_STREQ(StatusCodeName(StatusCode::kCorruptFile), "CORRUPT_FILE");
  EXPECT_STREQ(StatusCodeName(StatusCode::kInternal), "INTERNAL");
}

}  // namespace
}  // namespace slipstream::core
