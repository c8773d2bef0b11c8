// What stands for one character in a regular expression: literals, escapes, properties, classes.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "text/char_set.h"
#include "text/regex_source.h"

namespace slipstream::text {

/// Reads the parts that stand for one character. Errors go to the source.
class RegexClassReader {
 public:
  explicit RegexClassReader(RegexSource* source) : source_(*source) {}

  /// (?i:...): letters of either case.
  bool ignore_case = false;
  /// (?m:...): the dot takes line breaks, too.
  bool dot_takes_newline = false;

  /// One atom: a literal, an escape, a dot or a class in brackets.
  CharSet ReadAtom();
  /// The character that the last atom was alone, without regard to case under ignore_case; else 0.
  char32_t literal() const { return literal_; }

 private:
  void ReadClass(CharSet* set, int depth);
  bool ReadClassItem(CharSet* set, int depth);
  void ReadRange(char32_t low, CharSet* set);
  std::optional<char32_t> ReadEscape(CharSet* set, bool in_class);
  void ReadProperty(bool inverted, CharSet* set);
  void ReadPosix(CharSet* set);
  bool AddNamed(std::string_view name, bool inverted, CharSet* set);
  char32_t ReadEscapedChar(bool in_class);
  char32_t ReadHex(int digits);
  char32_t ReadHexInBraces();
  void AddLiteral(char32_t c, CharSet* set);
  void FoldClass(CharSet* set);
  const CharSet& Named(const std::string& name);

  RegexSource& source_;
  char32_t literal_ = 0;
  std::map<std::string, CharSet>
      named_;  // those asked for so far; each costs a walk over the table
};

}  // namespace slipstream::text
