#include "text/normalizer.h"

#include <algorithm>
#include <optional>

#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

// Calls visit(code_point) for every character; what `visit` appends to `out` is the new text.
template <class Visit>
void MapChars(std::string* text, Visit&& visit) {
  std::string out;
  out.reserve(text->size() + 16);
  for (size_t position = 0; position < text->size();) {
    const auto [c, size] = DecodeUtf8(*text, position);
    position += size;
    visit(c, &out);
  }
  *text = std::move(out);
}

void AppendLower(char32_t c, std::string* out) {
  const auto lower = LowerCase(c);
  for (const uint32_t part : lower) AppendUtf8(part, out);
  if (lower.empty()) AppendUtf8(c, out);
}

// A stage made of a function that cannot fail.
template <class Function>
class SimpleStage final : public NormalizerStage {
 public:
  explicit SimpleStage(Function function) : function_(std::move(function)) {}
  FindResult Apply(std::string* text) const override {
    function_(text);
    return FindResult::kFound;
  }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<NormalizerStage> MakeStage(Function function) {
  return std::make_unique<SimpleStage<Function>>(std::move(function));
}

// The same for one that takes away some characters, wherever they are: `removes` tells which.
template <class Function, class Removes>
class RemovingStage final : public NormalizerStage {
 public:
  RemovingStage(Function function, Removes removes)
      : function_(std::move(function)), removes_(std::move(removes)) {}
  FindResult Apply(std::string* text) const override {
    function_(text);
    return FindResult::kFound;
  }
  bool CutsFront(std::string_view text) const override {
    return !text.empty() && removes_(CharClass::Of(DecodeUtf8(text, 0).code_point));
  }

 private:
  Function function_;
  Removes removes_;
};

template <class Function, class Removes>
std::unique_ptr<NormalizerStage> MakeStage(Function function, Removes removes) {
  return std::make_unique<RemovingStage<Function, Removes>>(std::move(function),
                                                            std::move(removes));
}

class ReplaceStage final : public NormalizerStage {
 public:
  ReplaceStage(std::unique_ptr<SplitPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)), byte_(pattern_->OneByte()) {}

  FindResult Apply(std::string* text) const override {
    if (byte_) {
      ReplaceByte(text);
      return FindResult::kFound;
    }
    std::string out;
    size_t done = 0;
    bool any = false;
    const FindResult found = ForEachMatch(*pattern_, *text, [&](Span match) {
      if (!any) out.reserve(text->size() + text->size() / 2);
      any = true;
      out.append(*text, done, match.begin - done).append(content_);
      done = match.end;
      return FindResult::kFound;
    });
    if (!any || found == FindResult::kTooHard) return found;
    out.append(*text, done);
    *text = std::move(out);
    return FindResult::kFound;
  }

  bool CutsFront(std::string_view text) const override {
    bool cuts = false;
    if (!content_.empty()) return false;
    ForEachMatch(*pattern_, text, [&](Span match) {
      cuts = match.begin == 0 && match.end > 0;
      return FindResult::kStopped;
    });
    return cuts;
  }

 private:
  // Spaces become marks in every text of many vocabularies: one pass into memory of the right size.
  void ReplaceByte(std::string* text) const {
    const auto count = static_cast<size_t>(std::count(text->begin(), text->end(), *byte_));
    if (count == 0) return;
    std::string out(text->size() - count + count * content_.size(), '\0');
    char* to = out.data();
    for (const char c : *text) {
      if (c != *byte_) {
        *to++ = c;
      } else {
        for (const char part : content_) *to++ = part;
      }
    }
    *text = std::move(out);
  }

  std::unique_ptr<SplitPattern> pattern_;
  std::string content_;
  std::optional<char> byte_;  // all that the pattern matches, if it is one byte
};

void StripSpace(bool left, bool right, std::string* text) {
  size_t end = text->size();
  while (right && end > 0) {
    const Utf8Char c = DecodeUtf8Before(*text, end);
    if (!CharClass::Of(c.code_point).IsRustSpace()) break;
    end -= c.size;
  }
  size_t begin = 0;
  while (left && begin < end) {
    const Utf8Char c = DecodeUtf8(*text, begin);
    if (!CharClass::Of(c.code_point).IsRustSpace()) break;
    begin += c.size;
  }
  text->resize(end);
  text->erase(0, begin);
}

void CleanForBert(const BertCleaning& cleaning, std::string* text) {
  if (cleaning.clean_text || cleaning.handle_chinese_chars) {
    MapChars(text, [&](char32_t c, std::string* out) {
      const CharClass cls = CharClass::Of(c);
      if (cleaning.clean_text && cls.IsBertRemoved()) return;
      if (cleaning.clean_text && cls.IsBertSpace()) c = ' ';
      const bool apart = cleaning.handle_chinese_chars && cls.IsBertChinese();
      if (apart) out->push_back(' ');
      AppendUtf8(c, out);
      if (apart) out->push_back(' ');
    });
  }
  if (cleaning.strip_accents) {
    ToNormalForm(NormalForm::kNfd, text);
    MapChars(text, [](char32_t c, std::string* out) {
      if (!CharClass::Of(c).IsNonspacing()) AppendUtf8(c, out);
    });
  }
  if (cleaning.lowercase) MapChars(text, AppendLower);
}

}  // namespace

std::unique_ptr<NormalizerStage> MakeNormalForm(NormalForm form) {
  return MakeStage([form](std::string* text) { ToNormalForm(form, text); });
}

std::unique_ptr<NormalizerStage> MakeReplace(std::unique_ptr<SplitPattern> pattern,
                                             std::string content) {
  return std::make_unique<ReplaceStage>(std::move(pattern), std::move(content));
}

std::unique_ptr<NormalizerStage> MakePrepend(std::string prefix) {
  return MakeStage([prefix = std::move(prefix)](std::string* text) {
    if (!text->empty()) text->insert(0, prefix);
  });
}

std::unique_ptr<NormalizerStage> MakeStrip(bool left, bool right) {
  return MakeStage([left, right](std::string* text) { StripSpace(left, right, text); },
                   [left](CharClass c) { return left && c.IsRustSpace(); });
}

std::unique_ptr<NormalizerStage> MakeLowercase() {
  return MakeStage([](std::string* text) { MapChars(text, AppendLower); });
}

std::unique_ptr<NormalizerStage> MakeStripAccents() {
  return MakeStage(
      [](std::string* text) {
        MapChars(text, [](char32_t c, std::string* out) {
          if (!CharClass::Of(c).IsMark()) AppendUtf8(c, out);
        });
      },
      [](CharClass c) { return c.IsMark(); });
}

std::unique_ptr<NormalizerStage> MakeByteLevelNormalizer() {
  return MakeStage([](std::string* text) { *text = SpellBytes(*text); });
}

std::unique_ptr<NormalizerStage> MakePrecompiled(Charsmap charsmap) {
  return MakeStage([charsmap = std::move(charsmap)](std::string* text) { charsmap.Apply(text); });
}

std::unique_ptr<NormalizerStage> MakeBertNormalizer(const BertCleaning& cleaning) {
  return MakeStage([cleaning](std::string* text) { CleanForBert(cleaning, text); },
                   [cleaning](CharClass c) {
                     return (cleaning.clean_text && c.IsBertRemoved()) ||
                            (cleaning.strip_accents && c.IsNonspacing());
                   });
}

}  // namespace slipstream::text
