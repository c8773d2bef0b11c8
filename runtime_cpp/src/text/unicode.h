// Unicode properties of code points, as the regular expression engine of Hugging Face `tokenizers`
// sees them. The tables are generated at build time (generate_unicode_tables.py). Pure functions.
#pragma once

#include <cstdint>
#include <span>
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

/// Scripts and derived properties. The value is the bit of a table entry, as in
/// generate_unicode_tables.py.
enum class UnicodeProperty : uint8_t {
  kHan = 23,
  kHiragana,
  kKatakana,
  kHangul,
  kLatin,
  kCyrillic,
  kAlphabetic,
  kLowercase,
  kUppercase
};

namespace internal {
extern const uint16_t* const kUnicodeStage1;
extern const uint32_t* const kUnicodeStage2;
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
  /// Rust's char::is_whitespace, which is the same rule.
  bool IsRustSpace() const { return IsAddedTokenSpace(); }
  /// `\w` of the Whitespace pre-tokenizer, which is the same rule.
  bool IsRustWord() const { return IsAddedTokenWord(); }
  /// The engine's `\w`.
  bool IsEngineWord() const { return entry_ & (1 << 9); }
  /// What the Punctuation and BertPreTokenizer pre-tokenizers cut at.
  bool IsPunctuation() const { return entry_ & (1 << 10); }

  // What the normalizers do to the code point (unicode_normalization.py).
  bool IsBertRemoved() const { return entry_ & (1 << 11); }
  bool IsBertSpace() const { return entry_ & (1 << 12); }
  /// What StripAccents takes away.
  bool IsMark() const { return entry_ & (1 << 13); }
  /// What BertNormalizer takes away with strip_accents.
  bool IsNonspacing() const { return entry_ & (1 << 14); }
  bool IsBertChinese() const { return entry_ & (1 << 15); }
  /// Belongs to the grapheme cluster of the code point before it.
  bool ExtendsCluster() const { return entry_ & (1 << 16); }
  /// Belongs to the grapheme cluster of the code point behind it.
  bool PrependsCluster() const { return entry_ & (1 << 17); }
  /// Text without such code points is its own NFC.
  bool IsNfcUnsafe() const { return entry_ & (1 << 18); }
  bool HasCanonical() const { return entry_ & (1 << 19); }
  bool HasCompatible() const { return entry_ & (1 << 20); }
  bool HasLower() const { return entry_ & (1 << 21); }
  bool IsCombining() const { return entry_ & (1 << 22); }
  bool Has(UnicodeProperty property) const { return entry_ >> static_cast<int>(property) & 1; }

 private:
  explicit CharClass(uint32_t entry) : entry_(entry) {}
  uint32_t entry_;
};

/// Decompositions that are not Hangul syllables, complete ones, and lower case; empty when the code
/// point stays as it is.
std::span<const uint32_t> CanonicalDecomposition(char32_t code_point);
std::span<const uint32_t> CompatibleDecomposition(char32_t code_point);
std::span<const uint32_t> LowerCase(char32_t code_point);
/// 0 for starters; else a number in the order of the combining classes.
uint32_t CombiningClass(char32_t code_point);
/// What two code points that are not Hangul compose to; 0 when they do not.
char32_t ComposePair(char32_t first, char32_t second);

/// Version of the `tokenizers` wheel that the tables came from, e.g. "0.23.3".
const char* UnicodeTablesVersion();

}  // namespace slipstream::text
