// A pull reader of JSON for tokenizer files: megabytes of vocabulary and merges are read in place,
// without a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::text {

/// Walks over JSON text. After the first error every call returns false and error() says what and
/// where.
///
///     JsonCursor json(text);
///     if (json.EnterObject()) {
///       while (json.NextKey(&key)) { ... read or json.Skip() ... }
///     }
///     if (!json.ok()) return json.error();
class JsonCursor {
 public:
  /// `text` must outlive the cursor and be valid UTF-8 (checked by the caller once).
  explicit JsonCursor(std::string_view text) : text_(text) {}

  bool ok() const { return error_.empty(); }
  /// What is wrong, with the byte offset.
  const std::string& error() const { return error_; }

  /// First character of the next value: one of { [ " t f n - 0..9; 0 at the end or after an error.
  char Peek();

  bool EnterObject();
  /// The next key of the object; false at its end.
  bool NextKey(std::string_view* key);
  bool EnterArray();
  /// Whether there is another element; false at the end of the array.
  bool NextElement();

  /// A string; the view points into the text, or into a buffer that the next string call overwrites
  /// when there were escapes. Lone surrogates are an error.
  bool ReadString(std::string_view* value);
  /// An integer that fits int64.
  bool ReadInteger(int64_t* value);
  /// Any value, checked for balance only; `raw` gets its text.
  bool Skip(std::string_view* raw = nullptr);

  /// Nothing but white space may follow.
  bool AtEnd();

  /// Records an error at the current position; returns false.
  bool Fail(std::string_view what);

 private:
  void SkipSpace();
  bool Expect(char c);
  bool ReadEscape(size_t* position, std::string* out);
  bool ReadHex4(size_t position, uint32_t* value);
  bool SkipScalar();

  std::string_view text_;
  size_t position_ = 0;
  bool first_ = false;  // the next member or element is the first of its container
  std::string buffer_;
  std::string error_;
};

}  // namespace slipstream::text
