// A 64-bit name of a token prefix: the name of what comes before, chained with the tokens of a
// block. Not collision-free: whoever relies on equal content compares tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "slipstream/types.h"

namespace slipstream::kv {

inline uint64_t MixHash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9FB21C651E98DF25u;  // odd, with bits evenly spread
  return hash ^ (hash >> 32);
}

inline uint64_t ChainHash(uint64_t parent, std::span<const TokenId> tokens) {
  uint64_t hash = MixHash(parent, tokens.size());
  for (const TokenId token : tokens) hash = MixHash(hash, static_cast<uint32_t>(token));
  return hash;
}

/// The name of the empty prefix under a cache key. Never 0.
inline uint64_t KeyHash(std::string_view key) {
  uint64_t hash = 0x51D7348F0BE3C2A9u;
  for (const char c : key) hash = MixHash(hash, static_cast<unsigned char>(c));
  return hash | 1;
}

}  // namespace slipstream::kv
