// The compiled character map of SentencePiece, which the Precompiled normalizer applies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/status.h"

namespace slipstream::text {

/// A double array over byte strings and the texts that replace them. Immutable.
class Charsmap {
 public:
  /// Reads the base64 text of precompiled_charsmap. kInvalidArgument when it is damaged.
  static Result<Charsmap> FromBase64(std::string_view text);

  /// Replaces, in valid UTF-8, grapheme clusters below six bytes and single characters that the map
  /// knows: the rule of Hugging Face, which differs from SentencePiece's own longest match.
  void Apply(std::string* text) const;

 private:
  // Appends what replaces `part`; false when the map does not know how it starts.
  bool Transform(std::string_view part, std::string* out) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace slipstream::text
