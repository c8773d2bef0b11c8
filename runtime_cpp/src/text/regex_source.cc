#include "text/regex_source.h"

namespace slipstream::text {
namespace {

constexpr std::string_view kSupported =
    "supported are literals, ., [...] with nested classes and &&, [:posix:], \\d \\h \\s \\w \\N "
    "\\O, "
    "\\p{category or script}, \\x \\u, anchors ^ $ \\A \\z \\Z \\b \\B, groups (...) (?:...) "
    "(?>...) "
    "(?i:...) (?m:...), lookahead, lookbehind of bounded length, | and greedy, lazy and possessive "
    "quantifiers";

}  // namespace

bool RegexSource::Fail(std::string_view what) {
  if (error_.empty()) {
    error_ = std::string(what) + " at byte " + std::to_string(position_) + " of the pattern; " +
             std::string(kSupported);
  }
  return false;
}

}  // namespace slipstream::text
