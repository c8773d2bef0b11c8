// Cuts a piece of text into words: the pre_tokenizer section of a tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

namespace slipstream::text {

/// What becomes of the matches of a pattern, and of the text between them.
enum class SplitBehavior : uint8_t {
  kIsolated,
  kRemoved,
  kContiguous,
  kMergedWithPrevious,
  kMergedWithNext
};

/// One pre-tokenizer that cuts.
struct SplitStage {
  std::unique_ptr<SplitPattern> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  ///< matches and the text between them change places
};

/// Matches digits (Rust's char::is_numeric), one at a time or in runs.
std::unique_ptr<SplitPattern> MakeDigitsPattern(bool individual);

/// Stages run one after the other, each on the pieces of the one before; the ByteLevel
/// pre-tokenizer ends them. Immutable.
class PreTokenizer {
 public:
  using WordSink = std::function<void(std::string_view)>;

  std::vector<SplitStage> stages;
  bool add_prefix_space = false;  ///< ByteLevel: a word at the start of a piece gets a space
  std::unique_ptr<SplitPattern> byte_level_pattern;  ///< ByteLevel with use_regex, else nullptr

  /// Gives the words of `text` (valid UTF-8) in order. Never kNone.
  FindResult Run(std::string_view text, const WordSink& sink) const {
    return RunStage(0, text, sink);
  }

 private:
  FindResult RunStage(size_t index, std::string_view piece, const WordSink& sink) const;
  FindResult RunByteLevel(std::string_view piece, const WordSink& sink) const;
};

}  // namespace slipstream::text
