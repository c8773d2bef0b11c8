// What turns words into ids.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "slipstream/types.h"
#include "text/word_cache.h"

namespace slipstream::text {

/// Thread-safe: the only thing that changes is a memory of words, in which every thread finds what
/// it would compute.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `word`. False when a part of it has no token and the model has no token for
  /// unknown text.
  virtual bool Encode(std::string_view word, std::vector<TokenId>* ids) const {
    return EncodeCached(word, ids);
  }

 protected:
  bool EncodeCached(std::string_view word, std::vector<TokenId>* ids) const {
    const WordCache::Key key(word);
    if (!key.usable()) return EncodeWord(word, ids);
    if (cache_.Find(key, ids)) return true;
    const size_t first = ids->size();
    if (!EncodeWord(word, ids)) return false;
    cache_.Put(key, std::span(*ids).subspan(first));
    return true;
  }

 private:
  /// What Encode does, without the memory.
  virtual bool EncodeWord(std::string_view word, std::vector<TokenId>* ids) const = 0;

  mutable WordCache cache_;
};

}  // namespace slipstream::text
