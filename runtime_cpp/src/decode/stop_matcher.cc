#include "decode/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace slipstream::decode {

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool include_stop_in_output)
    : include_(include_stop_in_output) {
  patterns_.reserve(stops.size());
  for (const std::string& stop : stops) {
    Pattern pattern{stop, std::vector<size_t>(stop.size() + 1, 0), 0};
    for (size_t i = 1; i < stop.size(); ++i) {
      size_t border = pattern.fallback[i];
      while (border > 0 && stop[border] != stop[i]) border = pattern.fallback[border];
      pattern.fallback[i + 1] = stop[border] == stop[i] ? border + 1 : 0;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopMatcher::Push(std::string_view piece, bool may_end) {
  if (matched()) return {};
  if (patterns_.empty()) return std::string(piece);
  size_t hold = 0;
  for (size_t i = 0; i < piece.size(); ++i) {
    hold = 0;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      while (pattern.length > 0 && pattern.text[pattern.length] != piece[i]) {
        pattern.length = pattern.fallback[pattern.length];
      }
      if (pattern.text[pattern.length] == piece[i]) ++pattern.length;
      const bool complete = pattern.length == pattern.text.size();
      if (complete && !may_end) pattern.length = pattern.fallback[pattern.length];
      hold = std::max(hold, pattern.length);
      if (complete && may_end && (!matched() || pattern.length > patterns_[match_].text.size()))
        match_ = static_cast<int>(p);
    }
    if (matched()) {
      held_.append(piece.substr(0, i + 1));
      if (!include_) held_.resize(held_.size() - patterns_[match_].text.size());
      return std::exchange(held_, {});
    }
  }
  held_.append(piece);
  if (piece.empty()) return {};
  std::string certain = held_.substr(0, held_.size() - hold);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace slipstream::decode
