// Which tokens a sequence holds, and how often each was generated.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::decode {

/// Grows with its sequence: a token is looked at once in its life. Not thread-safe.
class TokenCounts {
 public:
  struct Entry {
    TokenId id = 0;
    int32_t generated = 0;  ///< Occurrences after the prompt.
  };

  /// Counts what `tokens` holds beyond those of the last call, which must still be their head; the
  /// first `prompt_tokens` are the prompt.
  void CatchUp(std::span<const TokenId> tokens, int32_t prompt_tokens);

  /// One entry for each token that occurs, by first occurrence.
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::unordered_map<TokenId, size_t> places_;  // id -> index into entries_
  std::vector<Entry> entries_;
  size_t counted_ = 0;
};

}  // namespace slipstream::decode
