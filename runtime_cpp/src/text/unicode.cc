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

const char* UnicodeTablesVersion() { return kTokenizersVersion; }

}  // namespace slipstream::text
