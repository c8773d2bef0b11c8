#include "text/pre_tokenizer.h"

#include <algorithm>
#include <string>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

class DigitsPattern final : public SplitPattern {
 public:
  explicit DigitsPattern(bool individual) : individual_(individual) {}

  FindResult Find(std::string_view text, size_t from, Span* match) const override {
    for (size_t position = from; position < text.size();) {
      const Utf8Char c = DecodeUtf8(text, position);
      if (CharClass::Of(c.code_point).IsNumeric()) {
        *match = {position, position + c.size};
        while (!individual_ && match->end < text.size()) {
          const Utf8Char next = DecodeUtf8(text, match->end);
          if (!CharClass::Of(next.code_point).IsNumeric()) break;
          match->end += next.size;
        }
        return FindResult::kFound;
      }
      position += c.size;
    }
    return FindResult::kNone;
  }

 private:
  bool individual_;
};

// Calls `visit(span, is_match)` for the matches and the text between them, in order; `visit`
// returns how to go on.
template <class Visit>
FindResult ForEachSpan(const SplitPattern& pattern, std::string_view text, Visit&& visit) {
  size_t done = 0;
  while (done < text.size()) {
    Span match;
    const FindResult found = pattern.Find(text, done, &match);
    if (found == FindResult::kTooHard) return found;
    if (found == FindResult::kNone) break;
    if (done < match.begin && visit(Span{done, match.begin}, false) == FindResult::kTooHard)
      return FindResult::kTooHard;
    if (visit(match, true) == FindResult::kTooHard) return FindResult::kTooHard;
    done = match.end;
  }
  if (done < text.size()) return visit(Span{done, text.size()}, false);
  return FindResult::kFound;
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

std::unique_ptr<SplitPattern> MakeDigitsPattern(bool individual) {
  return std::make_unique<DigitsPattern>(individual);
}

FindResult PreTokenizer::RunStage(size_t index, std::string_view piece,
                                  const WordSink& sink) const {
  if (index == stages.size()) return RunByteLevel(piece, sink);
  const SplitStage& stage = stages[index];
  const auto next = [&](Span span) {
    return RunStage(index + 1, piece.substr(span.begin, span.end - span.begin), sink);
  };
  if (stage.behavior == SplitBehavior::kIsolated || stage.behavior == SplitBehavior::kRemoved) {
    return ForEachSpan(*stage.pattern, piece, [&](Span span, bool is_match) {
      const bool remove = stage.behavior == SplitBehavior::kRemoved && is_match != stage.invert;
      return remove ? FindResult::kFound : next(span);
    });
  }
  std::vector<Part> parts;
  const FindResult found = ForEachSpan(*stage.pattern, piece, [&](Span span, bool is_match) {
    parts.push_back({span, is_match != stage.invert});
    return FindResult::kFound;
  });
  if (found == FindResult::kTooHard) return found;
  for (const Span span : Merge(std::move(parts), stage.behavior)) {
    if (next(span) == FindResult::kTooHard) return FindResult::kTooHard;
  }
  return FindResult::kFound;
}

FindResult PreTokenizer::RunByteLevel(std::string_view piece, const WordSink& sink) const {
  std::string with_space;
  if (add_prefix_space && !piece.starts_with(' ')) {
    with_space.reserve(piece.size() + 1);
    with_space.append(" ").append(piece);
    piece = with_space;
  }
  if (byte_level_pattern == nullptr) {
    sink(piece);
    return FindResult::kFound;
  }
  return ForEachSpan(*byte_level_pattern, piece, [&](Span span, bool) {
    sink(piece.substr(span.begin, span.end - span.begin));
    return FindResult::kFound;
  });
}

}  // namespace slipstream::text
