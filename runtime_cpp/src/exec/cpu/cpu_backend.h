// Runs the CPU plan of an engine file.
#pragma once

#include <memory>
#include <string_view>

#include "core/thread_pool.h"
#include "engine/manifest.h"
#include "engine/weight_store.h"
#include "exec/backend.h"
#include "slipstream/config.h"

namespace slipstream::exec {

/// A backend with its own arena and KV pools; `pool` must outlive it and may be shared with others,
/// which take turns. `path` is a resolved path (not kAuto) that this CPU has. A thread of the
/// backend's own drives the pool, so that Submit returns while the step is computed. Errors:
/// kCorruptFile, kIncompatible (plan against manifest and build), kNotFound (a tensor),
/// kResourceExhausted (memory, or a thread cannot start).
Result<std::unique_ptr<Backend>> CreateCpuBackend(
    core::ThreadPool& pool, CpuPath path, const engine::Manifest& manifest,
    std::string_view plan_json, std::shared_ptr<const engine::WeightStore> weights);

}  // namespace slipstream::exec
