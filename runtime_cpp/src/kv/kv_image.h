// The keys and values of a token prefix as one stream of bytes: for session files, for moving a
// conversation to another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/block_store.h"
#include "kv/kv_manager.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::kv {

/// What must agree between the exporting and the importing side for the bytes to mean the same.
struct ImageIdentity {
  std::string build_id;              ///< Of the engine file.
  std::vector<std::string> layouts;  ///< Of each cache group: dtype and layout, e.g. "bf16/cpu-1".
};

/// The stream, little-endian:
///   u8[8] magic, u32 version, u32 groups, u64 stream bytes, u64 tokens, u32 build_id bytes
///   build_id
///   per group: u32 block_tokens, u32 window, u64 bytes_per_block, u64 first block, u64 blocks,
///              u32 layout bytes, layout
///   i32[tokens] token ids
///   per group: the images of its blocks, in order
///   u64 checksum of all before
/// A window group holds only what the next position reads.
///
/// Exports the first `computed` tokens of the open sequence `slot`, whose keys and values are
/// written. Carries pending copies out first. Errors: what the store says. Throws std::bad_alloc.
Result<std::vector<std::byte>> ExportImage(KvManager& kv, int32_t slot,
                                           std::span<const TokenId> tokens, int64_t computed,
                                           const ImageIdentity& identity, BlockStore& store);

/// The token ids of a stream, after all checks: kCorruptFile where it is no such stream, cut, or
/// its checksum or sizes are wrong; kIncompatible where it is of another engine, layout or version.
Result<std::vector<TokenId>> ReadImageTokens(const KvManager& kv, std::span<const std::byte> image,
                                             const ImageIdentity& identity);

/// Opens `slot` as a sequence with the tokens of the stream, writes their blocks and commits them,
/// so that others find them too; request.tokens is not looked at. Gives the number of computed
/// tokens. Close the slot with keep = true to leave them as cache. Errors: those of
/// ReadImageTokens, kResourceExhausted as KvManager::Open, kLimitExceeded when the stream has more
/// tokens than request.total_tokens, and what the store says; then the slot is closed.
Result<int64_t> ImportImage(KvManager& kv, int32_t slot, const OpenRequest& request,
                            std::span<const std::byte> image, const ImageIdentity& identity,
                            BlockStore& store);

}  // namespace slipstream::kv
