#include "text/unicode.h"

#include <algorithm>

#include "unicode_tables.inc"

namespace slipstream::text {

static_assert(kBlockBits == 7, "CharClass::Of indexes blocks of 128 code points");
static_assert(sizeof(kStage1) / sizeof(kStage1[0]) == 0x110000 >> kBlockBits);
static_assert(kGeneralCategoryCount <= 32, "a category has five bits");

namespace {

// A span holds the start in the pool and, in its low eight bits, the count.
template <size_t N>
std::span<const uint32_t> LookUp(const uint32_t (&keys)[N], const uint32_t (&spans)[N],
                                 char32_t code_point) {
  const uint32_t* key = std::lower_bound(keys, keys + N, static_cast<uint32_t>(code_point));
  if (key == keys + N || *key != code_point) return {};
  const uint32_t span = spans[key - keys];
  return {kPool + (span >> 8), span & 0xFF};
}

}  // namespace

namespace internal {
const uint16_t* const kUnicodeStage1 = kStage1;
const uint32_t* const kUnicodeStage2 = kStage2;
}  // namespace internal

CategorySet CategorySetNamed(std::string_view name) {
  // Two letters for each category, in the order of GeneralCategory.
  constexpr std::string_view kNames =
      "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
  static_assert(kNames.size() == 2 * kGeneralCategoryCount);
  CategorySet set = 0;
  for (int category = 0; category < kGeneralCategoryCount; ++category) {
    const std::string_view full = kNames.substr(2 * category, 2);
    if (name == full || name == full.substr(0, 1))
      set |= CategoryBit(static_cast<GeneralCategory>(category));
  }
  return set;
}

std::span<const uint32_t> CanonicalDecomposition(char32_t code_point) {
  if (!CharClass::Of(code_point).HasCanonical()) return {};
  return LookUp(kCanonicalKeys, kCanonicalSpans, code_point);
}

std::span<const uint32_t> CompatibleDecomposition(char32_t code_point) {
  if (!CharClass::Of(code_point).HasCompatible()) return {};
  return LookUp(kCompatibleKeys, kCompatibleSpans, code_point);
}

std::span<const uint32_t> LowerCase(char32_t code_point) {
  if (!CharClass::Of(code_point).HasLower()) return {};
  return LookUp(kLowerKeys, kLowerSpans, code_point);
}

uint32_t CombiningClass(char32_t code_point) {
  if (!CharClass::Of(code_point).IsCombining()) return 0;
  const uint32_t* end = std::end(kCombiningKeys);
  const uint32_t* key = std::lower_bound(kCombiningKeys, end, static_cast<uint32_t>(code_point));
  return kCombiningClasses[key - kCombiningKeys];
}

char32_t ComposePair(char32_t first, char32_t second) {
  const auto [begin, end] = std::equal_range(kPairFirst, std::end(kPairFirst), uint32_t{first});
  const uint32_t* seconds = kPairSecond + (begin - kPairFirst);
  const uint32_t* seconds_end = kPairSecond + (end - kPairFirst);
  const uint32_t* found = std::lower_bound(seconds, seconds_end, static_cast<uint32_t>(second));
  return found == seconds_end || *found != second ? 0 : kPairComposed[found - kPairSecond];
}

const char* UnicodeTablesVersion() { return kTokenizersVersion; }

}  // namespace slipstream::text
