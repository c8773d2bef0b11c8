// Cuts a piece of text into words: the pre_tokenizer section of a tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <string>
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

/// A piece of text on its way. `first` says that it stands at the start of the whole text;
/// `front_cut` that the normalizer took away characters there, so that what is cut from the piece
/// does not.
struct Piece {
  std::string_view text;
  bool first = false;
  bool front_cut = false;
};

/// One step: cuts pieces, or rewrites them.
struct PreTokenizerStage {
  enum Kind : uint8_t {
    kSplit,
    kPrefixSpace,  ///< a piece without a space in front gets one
    kSpellBytes,   ///< bytes become characters of the byte-level alphabet
    kMetaspace,    ///< spaces become `replacement`, and `prepend` may put one in front
  };
  enum Prepend : uint8_t { kNever, kFirst, kAlways };

  Kind kind = kSplit;
  std::unique_ptr<SplitPattern> pattern;  ///< kSplit
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;      ///< matches and the text between them change places
  std::string replacement;  ///< kMetaspace
  Prepend prepend = kAlways;
};

/// Stages run one after the other, each on the pieces of the one before. Immutable.
class PreTokenizer {
 public:
  using WordSink = std::function<FindResult(std::string_view)>;

  std::vector<PreTokenizerStage> stages;

  /// Gives the words of `piece` (valid UTF-8) in order, until `sink` returns anything but kFound,
  /// which is then returned. Never kNone.
  FindResult Run(Piece piece, const WordSink& sink) const { return RunStage(0, piece, sink); }

 private:
  FindResult RunStage(size_t index, Piece piece, const WordSink& sink) const;
  FindResult RunSplit(size_t index, Piece piece, const WordSink& sink) const;
  FindResult RunRewrite(size_t index, Piece piece, const WordSink& sink) const;
};

}  // namespace slipstream::text
