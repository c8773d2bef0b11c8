// Counters of an Executor, cheap enough to poll.
#pragma once

#include <cstdint>

namespace slipstream {

/// A consistent snapshot. Counters only grow; gauges are of the moment.
struct ExecutorStats {
  int64_t steps = 0;                    ///< Steps run.
  int64_t prefill_tokens_computed = 0;  ///< Prompt tokens that went through the model.
  int64_t generated_tokens = 0;
  int64_t requests_submitted = 0;
  int64_t requests_finished = 0;  ///< With any finish reason.
  int32_t running = 0;            ///< Gauge: requests that hold KV blocks.
  int32_t waiting = 0;            ///< Gauge: requests not yet started.
  int64_t kv_blocks_total = 0;    ///< Over all cache groups.
  int64_t kv_blocks_free = 0;     ///< Gauge. Equals kv_blocks_total when nothing runs.
};

}  // namespace slipstream
