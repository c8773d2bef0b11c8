#include "kv/group_spec.h"

#include <algorithm>
#include <string>

#include "core/excerpt.h"

namespace slipstream::kv {

Result<GroupSpec> MakeGroupSpec(std::string_view kind, int32_t block_tokens, int32_t window,
                                int64_t bytes_per_block) {
  const std::string name(kind);
  if (kind == "latent" || kind == "state") {
    return Status(StatusCode::kIncompatible, "The engine keeps a KV cache group of kind '" +
                                                 core::Excerpt(name) +
                                                 "', which this version cannot run (it runs 'full' "
                                                 "and 'window'). Use a newer Slipstream.");
  }
  if (kind != "full" && kind != "window") {
    return Status(
        StatusCode::kInvalidArgument,
        "KV cache group kind '" + core::Excerpt(name) +
            "' is unknown; the kinds are full, window, latent and state. Rebuild the engine.");
  }
  if (block_tokens < 1 || bytes_per_block < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "A KV cache group has block_tokens " + std::to_string(block_tokens) +
                      " and bytes_per_block " + std::to_string(bytes_per_block) +
                      "; both must be at least 1. Rebuild the engine.");
  }
  if ((kind == "window") != (window > 0) || window < 0) {
    return Status(StatusCode::kInvalidArgument,
                  "A KV cache group of kind '" + core::Excerpt(name) + "' has window " +
                      std::to_string(window) +
                      "; it must be positive for 'window' and 0 for 'full'. Rebuild the engine.");
  }
  return GroupSpec{
      .block_tokens = block_tokens, .window = window, .bytes_per_block = bytes_per_block};
}

int64_t BlocksToCover(const GroupSpec& spec, int64_t tokens) {
  return (tokens + spec.block_tokens - 1) / spec.block_tokens;
}

int64_t PeakBlocks(const GroupSpec& spec, int64_t total_tokens, int64_t max_chunk) {
  const int64_t all = BlocksToCover(spec, total_tokens);
  if (spec.window == 0) return all;
  // A run of n positions touches the most blocks when its first position is the last of a block.
  const int64_t run = int64_t{spec.window} - 1 + max_chunk;
  return std::min(all, 1 + BlocksToCover(spec, run - 1));
}

int64_t FirstLiveBlock(const GroupSpec& spec, int64_t position) {
  if (spec.window == 0) return 0;
  return std::max<int64_t>(0, position - spec.window + 1) / spec.block_tokens;
}

}  // namespace slipstream::kv
