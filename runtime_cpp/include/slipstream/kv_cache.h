// What callers say and learn about cached keys and values (KV).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/types.h"

namespace slipstream {

/// The retention priority of blocks of which nobody says anything, on a scale from 0 (evicted
/// first) to 100.
inline constexpr int32_t kDefaultKvPriority = 35;

/// What the KV of the positions [first, end) of a request is worth when nobody holds it any more.
struct KvRetention {
  int64_t first = 0;                      ///< At least 0.
  int64_t end = INT64_MAX;                ///< Above first. Generated tokens lie behind the prompt.
  int32_t priority = kDefaultKvPriority;  ///< From 0 to 100.
  /// From when the last request lets go; then kDefaultKvPriority holds. 0: for good.
  std::chrono::milliseconds duration{0};
};

/// Where a cached block is.
enum class KvTier : uint8_t {
  kDevice = 0,  ///< In the KV pool, where steps read and write it.
  kHost = 1,    ///< In the host tier.
};

/// What happened to cached blocks, for whoever routes requests to where their prefix is. Blocks are
/// named by a 64-bit hash of their salt and of all tokens from the first of the sequence to their
/// own last.
struct KvEvent {
  enum class Kind : uint8_t { kStored = 0, kRemoved = 1, kMoved = 2 };

  Kind kind = Kind::kStored;
  int32_t group = 0;             ///< Cache group, in the order of the manifest.
  std::vector<uint64_t> hashes;  ///< Of the blocks; those stored follow each other.
  // Stored only:
  uint64_t parent = 0;             ///< The block (or, for the first, the salt) that they continue.
  std::vector<TokenId> token_ids;  ///< Of these blocks. The last may be incomplete.
  std::string cache_salt;          ///< Of the request: Request::cache_salt.
  // Moved only:
  KvTier from = KvTier::kDevice;
  KvTier to = KvTier::kDevice;
};

/// Events since the last call, oldest first.
struct KvEvents {
  std::vector<KvEvent> events;
  int64_t dropped = 0;  ///< Lost since the start of the executor: taken too late.
};

/// The KV of a token prefix as one checked stream of bytes: only an executor of the same engine
/// file takes it.
struct KvImage {
  std::vector<std::byte> bytes;
  int64_t tokens = 0;  ///< Length of the prefix.
};

}  // namespace slipstream
