// Counters of an Executor, cheap enough to poll.
#pragma once

#include <cstdint>
#include <vector>

#include "slipstream/types.h"

namespace slipstream {

/// A consistent snapshot. Counters only grow; gauges are of the moment. Times in microseconds.
struct ExecutorStats {
  int64_t steps = 0;                    ///< Steps run.
  int64_t prefill_tokens_computed = 0;  ///< Prompt tokens that went through the model.
  int64_t cached_tokens = 0;            ///< Tokens whose KV was reused instead of computed.
  int64_t recomputed_tokens = 0;  ///< Of prefill_tokens_computed: computed before, then preempted.
  int64_t generated_tokens = 0;
  int64_t requests_submitted = 0;
  int64_t requests_finished = 0;   ///< With any finish reason.
  int64_t preemptions = 0;         ///< Times that a running request went back to the queue.
  int64_t blocks_copied = 0;       ///< KV blocks copied on write or for a partial hit.
  int64_t blocks_swapped_out = 0;  ///< KV blocks moved to the host tier instead of forgotten.
  int64_t blocks_swapped_in = 0;   ///< KV blocks brought back from it.
  int64_t schedule_us = 0;         ///< Time spent on choosing and preparing steps.
  int64_t model_us = 0;            ///< Time spent in the model.
  int64_t sample_us = 0;           ///< Time spent on drawing tokens and on text.
  int64_t deliver_us = 0;          ///< Time spent in callbacks and mailboxes.
  int32_t running = 0;             ///< Gauge: requests that hold KV blocks.
  int32_t waiting = 0;             ///< Gauge: requests not yet started, or preempted.
  int64_t waiting_tokens = 0;      ///< Gauge: prompt tokens of the waiting requests.
  int64_t kv_blocks_total = 0;     ///< Over all cache groups.
  int64_t kv_blocks_free = 0;      ///< Gauge: neither held by a request nor cached.
  /// Gauge: held by no request, kept for later ones and given up when a request needs the block.
  /// Free and cached together equal the total when nothing runs.
  int64_t kv_blocks_cached = 0;
  int64_t host_blocks_total = 0;  ///< Of the host tier, over all cache groups.
  int64_t host_blocks_used = 0;   ///< Gauge: hold the KV of blocks that left the pool.
};

/// One request's part in a step.
struct IterationEntry {
  RequestId id = 0;
  int32_t first_position = 0;  ///< Position of its first row.
  int32_t rows = 0;
  bool prefill = false;  ///< Rows of a prompt (or of a preempted sequence), not of a new token.
  bool sampled = false;  ///< A token was drawn from its last row.
  /// Microseconds that it waited in the queue before this step; 0 but for the first step after it.
  int64_t queued_us = 0;
};

/// One step. Times in microseconds; start_us counts from the creation of the executor.
struct Iteration {
  int64_t step = 0;  ///< From 1 on.
  int64_t start_us = 0;
  int64_t schedule_us = 0;
  int64_t model_us = 0;
  int64_t sample_us = 0;
  int32_t prefill_rows = 0;
  int32_t decode_rows = 0;
  int32_t waiting = 0;           ///< Requests in the queue after the step.
  int32_t preempted = 0;         ///< Requests sent back to the queue for it.
  int64_t kv_blocks_free = 0;    ///< After its blocks were taken.
  int64_t kv_blocks_cached = 0;  ///< After its blocks were taken.
  std::vector<IterationEntry> entries;
};

}  // namespace slipstream
