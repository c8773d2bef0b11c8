// Rewrites text before it is cut into words: the normalizer section of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.h"
#include "text/normal_forms.h"
#include "text/split_pattern.h"

namespace slipstream::text {

/// One rewriting. Immutable.
class NormalizerStage {
 public:
  virtual ~NormalizerStage() = default;
  /// Rewrites `text` (valid UTF-8 before and after). kTooHard when a pattern gave up, else kFound.
  virtual FindResult Apply(std::string* text) const = 0;
  /// Whether characters at the front of `text` would be taken away.
  virtual bool CutsFront(std::string_view) const { return false; }
};

std::unique_ptr<NormalizerStage> MakeNormalForm(NormalForm form);
std::unique_ptr<NormalizerStage> MakeReplace(std::unique_ptr<SplitPattern> pattern,
                                             std::string content);
/// Text that is not empty gets `prefix` in front.
std::unique_ptr<NormalizerStage> MakePrepend(std::string prefix);
std::unique_ptr<NormalizerStage> MakeStrip(bool left, bool right);
std::unique_ptr<NormalizerStage> MakeLowercase();
std::unique_ptr<NormalizerStage> MakeStripAccents();
/// Spells the bytes in the byte-level alphabet.
std::unique_ptr<NormalizerStage> MakeByteLevelNormalizer();
std::unique_ptr<NormalizerStage> MakePrecompiled(Charsmap charsmap);

struct BertCleaning {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<NormalizerStage> MakeBertNormalizer(const BertCleaning& cleaning);

/// Stages, one after the other. Immutable after building.
class Normalizer {
 public:
  std::vector<std::unique_ptr<NormalizerStage>> stages;

  bool empty() const { return stages.empty(); }
  /// `cuts_front` (if given) tells whether characters at the front were taken away.
  FindResult Run(std::string* text, bool* cuts_front = nullptr) const {
    for (const auto& stage : stages) {
      if (cuts_front != nullptr) *cuts_front |= stage->CutsFront(*text);
      if (stage->Apply(text) == FindResult::kTooHard) return FindResult::kTooHard;
    }
    return FindResult::kFound;
  }
};

}  // namespace slipstream::text
