// Cached KV out of the executor and into it, between two steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "executor/batcher.h"
#include "executor/step_runner.h"
#include "kv/kv_image.h"
#include "slipstream/kv_cache.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::executor {

/// As Executor::ExportKv and ImportKv say. On the loop's thread while no step is in flight; throw
/// std::bad_alloc and leave nothing open then.
Result<KvImage> ExportKv(Batcher& batcher, StepRunner& runner, std::span<const TokenId> tokens,
                         std::string_view cache_salt, const kv::ImageIdentity& identity);
Result<int64_t> ImportKv(Batcher& batcher, StepRunner& runner, std::span<const std::byte> image,
                         std::string_view cache_salt, const kv::ImageIdentity& identity);

}  // namespace slipstream::executor
