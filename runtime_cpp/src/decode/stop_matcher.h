// Finds stop strings in text that arrives in pieces, and holds back what may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slipstream::decode {

/// Generation ends at the first byte that completes a stop string; if several complete there, the
/// longest counts. That is a property of the text alone, never of how it was cut into pieces.
///
/// Push gives out everything except the longest suffix that is a proper prefix of a stop string.
/// Since stop strings and pieces are valid UTF-8, what is given out is too. Not thread-safe; one
/// per sequence.
class StopMatcher {
 public:
  /// `stops` are non-empty valid UTF-8; the list may be empty.
  explicit StopMatcher(const std::vector<std::string>& stops, bool include_stop_in_output = false);

  /// The text that became certain. After a match: the text up to the stop string (and the stop
  /// string itself when it is to be included); the rest of the piece is dropped, and so is every
  /// later piece.
  /// Where `may_end` is false, a stop string that the piece completes does not count: it is text.
  std::string Push(std::string_view piece, bool may_end = true);

  /// The held text, at an end for another reason than a stop string.
  std::string Flush();

  bool matched() const { return match_ >= 0; }
  /// Index into `stops` of the one that matched; -1: none.
  int matched_index() const { return match_; }

 private:
  // Knuth-Morris-Pratt automaton of one stop string: `length` bytes of it end the text so far.
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // [i]: longest proper border of text[0, i)
    size_t length = 0;
  };

  std::vector<Pattern> patterns_;
  bool include_;
  int match_ = -1;
  std::string held_;
};

}  // namespace slipstream::decode
