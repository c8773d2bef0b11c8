// Makes an Executor of its parts, without an engine file: the public Executor::Create uses it, and
// so do tests with a null backend.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/row_math.h"
#include "exec/backend.h"
#include "executor/request_state.h"
#include "kv/kv_image.h"
#include "slipstream/config.h"
#include "slipstream/executor.h"
#include "slipstream/status.h"

namespace slipstream::executor {

struct ExecutorParts {
  std::unique_ptr<exec::Backend> backend;  ///< Its KV is not allocated yet.
  ModelFacts facts;                        ///< With the engine's limits; the config may lower them.
  kv::ImageIdentity identity;              ///< With a layout for each cache group of the backend.
  const core::RowMath* math = nullptr;  ///< Null: the scalar reference. Must outlive the executor.
  std::shared_ptr<const void>
      keep_alive;  ///< What the backend needs (weights, thread pool); released last.
};

/// Sizes and allocates the KV pool and starts the loop. Errors as Executor::Create.
Result<std::unique_ptr<Executor>> CreateExecutor(ExecutorParts parts, const ExecutorConfig& config);

}  // namespace slipstream::executor
