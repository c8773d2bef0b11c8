#include "text/normal_forms.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

// Hangul syllables are arranged by leading consonant, vowel and trailing consonant.
constexpr char32_t kSyllable = 0xAC00;
constexpr char32_t kLead = 0x1100;
constexpr char32_t kVowel = 0x1161;
constexpr char32_t kTrail = 0x11A7;  // one before the first: "none"
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTrails = 28;

bool IsIn(char32_t c, char32_t first, char32_t count) { return c >= first && c < first + count; }

struct Char {
  char32_t code_point;
  uint32_t combining_class;
};

// Marks of one letter in the order of their classes.
void SortMarks(std::vector<Char>* chars) {
  for (size_t begin = 0; begin < chars->size();) {
    if ((*chars)[begin].combining_class == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < chars->size() && (*chars)[end].combining_class != 0) ++end;
    std::stable_sort(
        chars->begin() + static_cast<ptrdiff_t>(begin),
        chars->begin() + static_cast<ptrdiff_t>(end),
        [](const Char& a, const Char& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

void Decompose(std::string_view text, bool compatible, std::vector<Char>* out) {
  const auto add = [&](char32_t c) { out->push_back({c, CombiningClass(c)}); };
  for (size_t position = 0; position < text.size();) {
    const auto [c, size] = DecodeUtf8(text, position);
    position += size;
    if (IsIn(c, kSyllable, kLeads * kVowels * kTrails)) {
      const char32_t index = c - kSyllable;
      add(kLead + index / (kVowels * kTrails));
      add(kVowel + index / kTrails % kVowels);
      if (index % kTrails != 0) add(kTrail + index % kTrails);
      continue;
    }
    const auto parts = compatible ? CompatibleDecomposition(c) : CanonicalDecomposition(c);
    for (const uint32_t part : parts) add(part);
    if (parts.empty()) add(c);
  }
  SortMarks(out);
}

char32_t Compose(char32_t a, char32_t b) {
  if (IsIn(a, kLead, kLeads) && IsIn(b, kVowel, kVowels))
    return kSyllable + ((a - kLead) * kVowels + (b - kVowel)) * kTrails;
  const bool open_syllable =
      IsIn(a, kSyllable, kLeads * kVowels * kTrails) && (a - kSyllable) % kTrails == 0;
  if (open_syllable && IsIn(b, kTrail + 1, kTrails - 1)) return a + (b - kTrail);
  return ComposePair(a, b);
}

// Each character joins the last starter, unless something between them has its class or none.
void ComposeAll(std::vector<Char>* chars) {
  constexpr size_t kNone = ~size_t{0};
  size_t starter = kNone;
  size_t kept = 0;
  for (const Char c : *chars) {
    const bool adjacent = starter != kNone && kept == starter + 1;
    const bool blocked = starter == kNone ||
                         (!adjacent && (c.combining_class == 0 ||
                                        (*chars)[kept - 1].combining_class >= c.combining_class));
    const char32_t joined = blocked ? 0 : Compose((*chars)[starter].code_point, c.code_point);
    if (joined != 0) {
      (*chars)[starter].code_point = joined;
      continue;
    }
    if (c.combining_class == 0) starter = kept;
    (*chars)[kept++] = c;
  }
  chars->resize(kept);
}

// Most text is in the form already, which is cheap to see.
bool IsSurelyIn(NormalForm form, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    if (static_cast<uint8_t>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const auto [c, size] = DecodeUtf8(text, position);
    position += size;
    const CharClass cls = CharClass::Of(c);
    const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
    const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
    if (composed ? cls.IsNfcUnsafe() : cls.IsCombining() || cls.HasCanonical()) return false;
    if (compatible && cls.HasCompatible()) return false;
    if (!composed && IsIn(c, kSyllable, kLeads * kVowels * kTrails)) return false;
  }
  return true;
}

}  // namespace

void ToNormalForm(NormalForm form, std::string* text) {
  if (IsSurelyIn(form, *text)) return;
  std::vector<Char> chars;
  chars.reserve(text->size());
  Decompose(*text, form == NormalForm::kNfkc || form == NormalForm::kNfkd, &chars);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) ComposeAll(&chars);
  std::string out;
  out.reserve(text->size());
  for (const Char& c : chars) AppendUtf8(c.code_point, &out);
  *text = std::move(out);
}

}  // namespace slipstream::text
