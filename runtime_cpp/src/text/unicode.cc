#include "text/unicode.h"

#include "unicode_tables.inc"

namespace slipstream::text {

static_assert(kBlockBits == 7, "CharClass::Of indexes blocks of 128 code points");
static_assert(sizeof(kStage1) / sizeof(kStage1[0]) == 0x110000 >> kBlockBits);
static_assert(kGeneralCategoryCount <= 32, "a category has five bits");

namespace internal {
const uint16_t* const kUnicodeStage1 = kStage1;
const uint16_t* const kUnicodeStage2 = kStage2;
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

const char* UnicodeTablesVersion() { return kTokenizersVersion; }

}  // namespace slipstream::text
