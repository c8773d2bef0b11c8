// UTF-8 checking and repair, the byte-level alphabet, and facts of the generated Unicode tables.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr char kBad[] = "\xEF\xBF\xBD";

std::string Repair(std::string_view bytes) {
  LossyUtf8Decoder decoder;
  std::string out;
  decoder.Push(bytes, &out);
  decoder.Flush(&out);
  return out;
}

std::string Bad(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += kBad;
  return out;
}

TEST(Utf8, EncodesAndDecodesEveryScalarValue) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "x";
    AppendUtf8(c, &text);
    ASSERT_EQ(FindInvalidUtf8(text), std::string_view::npos) << static_cast<uint32_t>(c);
    const Utf8Char forward = DecodeUtf8(text, 1);
    ASSERT_EQ(static_cast<uint32_t>(forward.code_point), static_cast<uint32_t>(c));
    ASSERT_EQ(forward.size, text.size() - 1);
    ASSERT_TRUE(DecodeUtf8Before(text, text.size()).code_point == c);
    ASSERT_EQ(Repair(text), text);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("plain ascii, long enough for words"), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("0123456789\x80"), 10u);
  EXPECT_EQ(FindInvalidUtf8("ab\xC3"), 2u);             // cut
  EXPECT_EQ(FindInvalidUtf8("\xC0\xAF"), 0u);           // overlong
  EXPECT_EQ(FindInvalidUtf8("\xE0\x80\x80"), 0u);       // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xED\xA0\x80"), 1u);      // surrogate
  EXPECT_EQ(FindInvalidUtf8("a\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("a\xF5\x80\x80\x80"), 1u);
  EXPECT_EQ(FindInvalidUtf8("\xE4\xB8\x28"), 0u);
}

// The expected numbers follow the Unicode standard's table of maximal subparts (3-8 to 3-11), as
// Rust does.
TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(Repair("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                   "A"),
            Bad(8) + "A");
  EXPECT_EQ(Repair("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                   "A"),
            Bad(8) + "A");
  EXPECT_EQ(Repair("\xF4\x91\x92\x93\xFF"
                   "A\x80\xBF"
                   "B"),
            Bad(5) + "A" + Bad(2) + "B");
  EXPECT_EQ(Repair("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                   "A"),
            Bad(4) + "A");
  EXPECT_EQ(Repair("caf\xC3"), "caf" + Bad(1));
  EXPECT_EQ(Repair("\xF0\x9F\x99"), Bad(1));
}

TEST(Utf8, RepairDoesNotDependOnHowBytesArrive) {
  std::mt19937 random(7);
  const std::string pool =
      "\xC3\xA9\xE4\xB8\x80\xF0\x9F\x99\x82"
      "ab\x80\xFF\xED\xA0\xF4\xBF\xC0";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t n = random() % 40; n > 0; --n) bytes += pool[random() % pool.size()];
    LossyUtf8Decoder decoder;
    std::string pieces;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 4;
      std::string piece;
      decoder.Push(std::string_view(bytes).substr(at, size), &piece);
      ASSERT_EQ(FindInvalidUtf8(piece), std::string_view::npos);
      pieces += piece;
      at += size;
    }
    decoder.Flush(&pieces);
    ASSERT_EQ(pieces, Repair(bytes));
  }
}

TEST(ByteAlphabet, SpellsEveryByteOnceAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string spelling = SpellBytes(all);
  EXPECT_EQ(FindInvalidUtf8(spelling), std::string_view::npos);
  std::string back;
  ASSERT_TRUE(AppendSpelledBytes(spelling, &back));
  EXPECT_EQ(back, all);
  EXPECT_EQ(SpellBytes(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");  // Ġ a Ċ
  std::string kept = "x";
  EXPECT_FALSE(AppendSpelledBytes("ok \xE4\xB8\x80",
                                  &kept));  // a space and a Han character are not in the alphabet
  EXPECT_EQ(kept, "x");
}

TEST(Unicode, KnownCodePoints) {
  EXPECT_TRUE(CharClass::Of('a').In(kSetL));
  EXPECT_EQ(CharClass::Of(U'\u01C5').category(), kLt);
  EXPECT_EQ(CharClass::Of(U'\u02B0').category(), kLm);
  EXPECT_TRUE(CharClass::Of(U'\u0301').In(kSetM));
  EXPECT_FALSE(CharClass::Of(U'\u0301').In(kSetL));
  EXPECT_TRUE(CharClass::Of(U'\u00BD').IsNumeric());
  EXPECT_TRUE(CharClass::Of(U'\u2167').In(kSetN));
  EXPECT_TRUE(CharClass::Of(U'\u3000').IsSpace());
  EXPECT_TRUE(CharClass::Of(U'\u0085').IsSpace());
  EXPECT_FALSE(CharClass::Of(U'\u200B').IsSpace());
  EXPECT_TRUE(CharClass::Of('_').IsAddedTokenWord());
  EXPECT_FALSE(CharClass::Of('-').IsAddedTokenWord());
  EXPECT_EQ(CharClass::Of(0xE000).category(), kCo);
  EXPECT_EQ(CharClass::Of(0x10FFFF).category(), kCn);
  EXPECT_STRNE(UnicodeTablesVersion(), "");
}

TEST(Unicode, CategoriesCoverEverythingOnce) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    const CharClass cls = CharClass::Of(c);
    int sets = 0;
    for (const CategorySet set : {kSetL, kSetM, kSetN, kSetP, kSetS, kSetZ, kSetC})
      sets += cls.In(set);
    ASSERT_EQ(sets, 1) << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace slipstream::text
