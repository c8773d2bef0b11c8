// Unicode properties of code points, as the regular expression engine of Hugging Face `tokenizers`
// sees them. The tables are generated at build time (generate_unicode_tables.py). Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace slipstream::text {

/// General categories. The order is that of CATEGORIES in generate_unicode_tables.py.
enum GeneralCategory : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kGeneralCategoryCount
};

/// A set of general categories, one bit each: what \p{...} names.
using CategorySet = uint32_t;

constexpr CategorySet CategoryBit(GeneralCategory category) { return CategorySet{1} << category; }

constexpr CategorySet kSetL =
    CategoryBit(kLu) | CategoryBit(kLl) | CategoryBit(kLt) | CategoryBit(kLm) | CategoryBit(kLo);
constexpr CategorySet kSetM = CategoryBit(kMn) | CategoryBit(kMc) | CategoryBit(kMe);
constexpr CategorySet kSetN = CategoryBit(kNd) | CategoryBit(kNl) | CategoryBit(kNo);
constexpr CategorySet kSetP = CategoryBit(kPc) | CategoryBit(kPd) | CategoryBit(kPs) |
                              CategoryBit(kPe) | CategoryBit(kPi) | CategoryBit(kPf) |
                              CategoryBit(kPo);
constexpr CategorySet kSetS =
    CategoryBit(kSm) | CategoryBit(kSc) | CategoryBit(kSk) | CategoryBit(kSo);
constexpr CategorySet kSetZ = CategoryBit(kZs) | CategoryBit(kZl) | CategoryBit(kZp);
constexpr CategorySet kSetC =
    CategoryBit(kCc) | CategoryBit(kCf) | CategoryBit(kCs) | CategoryBit(kCo) | CategoryBit(kCn);

/// The categories that \p{name} stands for: "L", "Lu" and so on; 0 when there is no such name.
CategorySet CategorySetNamed(std::string_view name);

namespace internal {
extern const uint16_t* const kUnicodeStage1;
extern const uint16_t* const kUnicodeStage2;
}  // namespace internal

/// What the tables say about one code point.
class CharClass {
 public:
  /// `code_point` must be below 0x110000.
  static CharClass Of(char32_t code_point) {
    constexpr int kBlockBits = 7;
    const uint32_t block = internal::kUnicodeStage1[code_point >> kBlockBits];
    return CharClass(
        internal::kUnicodeStage2[(block << kBlockBits) | (code_point & ((1u << kBlockBits) - 1))]);
  }

  GeneralCategory category() const { return static_cast<GeneralCategory>(entry_ & 31); }
  bool In(CategorySet set) const { return (set >> (entry_ & 31)) & 1; }
  /// The engine's `\s`.
  bool IsSpace() const { return entry_ & (1 << 5); }
  /// Rust's char::is_numeric, which the Digits pre-tokenizer uses.
  bool IsNumeric() const { return entry_ & (1 << 6); }
  /// Word and space as added tokens with single_word, lstrip and rstrip use them.
  bool IsAddedTokenWord() const { return entry_ & (1 << 7); }
  bool IsAddedTokenSpace() const { return entry_ & (1 << 8); }

 private:
  explicit CharClass(uint16_t entry) : entry_(entry) {}
  uint16_t entry_;
};

/// Version of the `tokenizers` wheel that the tables came from, e.g. "0.23.3".
const char* UnicodeTablesVersion();

}  // namespace slipstream::text
