#include "text/pre_tokenizer.h"

#include <algorithm>
#include <string>

#include "text/byte_alphabet.h"

namespace slipstream::text {
namespace {

// Calls `visit(span, is_match)` for the matches and the text between them, in order; `visit`
// returns how to go on.
template <class Visit>
FindResult ForEachSpan(const SplitPattern& pattern, std::string_view text, Visit&& visit) {
  size_t done = 0;
  const FindResult found = ForEachMatch(pattern, text, [&](Span match) {
    if (done < match.begin) {
      const FindResult between = visit(Span{done, match.begin}, false);
      if (between != FindResult::kFound) return between;
    }
    done = match.end;
    return visit(match, true);
  });
  if (found != FindResult::kFound || done == text.size()) return found;
  return visit(Span{done, text.size()}, false);
}

struct Part {
  Span span;
  bool is_match;
};

// Joins neighbours as the three merging behaviours ask for.
std::vector<Span> Merge(std::vector<Part> parts, SplitBehavior behavior) {
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<Span> merged;
  bool previous_match = false;
  for (const Part& part : parts) {
    const bool join = behavior == SplitBehavior::kContiguous ? part.is_match == previous_match
                                                             : part.is_match && !previous_match;
    previous_match = part.is_match;
    if (!join || merged.empty()) {
      merged.push_back(part.span);
    } else if (backwards) {
      merged.back().begin = part.span.begin;
    } else {
      merged.back().end = part.span.end;
    }
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  return merged;
}

}  // namespace

FindResult PreTokenizer::RunStage(size_t index, Piece piece, const WordSink& sink) const {
  if (index == stages.size()) return sink(piece.text);
  const bool split = stages[index].kind == PreTokenizerStage::kSplit;
  return split ? RunSplit(index, piece, sink) : RunRewrite(index, piece, sink);
}

FindResult PreTokenizer::RunRewrite(size_t index, Piece piece, const WordSink& sink) const {
  const PreTokenizerStage& stage = stages[index];
  std::string text;
  switch (stage.kind) {
    case PreTokenizerStage::kSplit:
      break;
    case PreTokenizerStage::kPrefixSpace:
      if (piece.text.starts_with(' ')) return RunStage(index + 1, piece, sink);
      text.reserve(piece.text.size() + 1);
      text.append(" ").append(piece.text);
      break;
    case PreTokenizerStage::kSpellBytes:
      text = SpellBytes(piece.text);
      break;
    case PreTokenizerStage::kMetaspace: {
      const bool prepend = stage.prepend == PreTokenizerStage::kAlways ||
                           (stage.prepend == PreTokenizerStage::kFirst && piece.first);
      const bool has_one = piece.text.starts_with(stage.replacement) || piece.text.starts_with(' ');
      if (prepend && !has_one) text = stage.replacement;
      for (const char c : piece.text) {
        if (c == ' ') {
          text += stage.replacement;
        } else {
          text.push_back(c);
        }
      }
      break;
    }
  }
  return RunStage(index + 1, {text, piece.first, piece.front_cut}, sink);
}

FindResult PreTokenizer::RunSplit(size_t index, Piece piece, const WordSink& sink) const {
  const PreTokenizerStage& stage = stages[index];
  const auto next = [&](Span span) {
    if (span.begin == span.end) return FindResult::kFound;  // of a match of nothing: a cut only
    return RunStage(index + 1,
                    {piece.text.substr(span.begin, span.end - span.begin),
                     piece.first && span.begin == 0 && !piece.front_cut},
                    sink);
  };
  if (stage.behavior == SplitBehavior::kIsolated || stage.behavior == SplitBehavior::kRemoved) {
    return ForEachSpan(*stage.pattern, piece.text, [&](Span span, bool is_match) {
      const bool remove = stage.behavior == SplitBehavior::kRemoved && is_match != stage.invert;
      return remove ? FindResult::kFound : next(span);
    });
  }
  std::vector<Part> parts;
  const FindResult found = ForEachSpan(*stage.pattern, piece.text, [&](Span span, bool is_match) {
    parts.push_back({span, is_match != stage.invert});
    return FindResult::kFound;
  });
  if (found == FindResult::kTooHard) return found;
  for (const Span span : Merge(std::move(parts), stage.behavior)) {
    if (const FindResult result = next(span); result != FindResult::kFound) return result;
  }
  return FindResult::kFound;
}

}  // namespace slipstream::text
