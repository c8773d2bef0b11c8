// Where a request stands among the others: rank, place in the batch, cache, times.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sched/rank.h"
#include "slipstream/kv_cache.h"
#include "slipstream/request.h"

namespace slipstream::executor {

/// Microseconds of the steady clock: the time of every scheduling decision.
inline int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Belongs to the loop's thread once the request is queued; guarded by the loop's mutex while it
/// waits. Times are of NowUs.
struct Placement {
  sched::Rank rank;
  int32_t slot = -1;  ///< In the batch and the KV cache; -1 while it waits.

  std::string cache_key;  ///< What its KV depends on beside the tokens.
  bool read_cache = true;
  bool write_cache = true;
  std::vector<KvRetention> retention;

  int64_t submitted_us = 0;
  int64_t queued_us = 0;                  ///< When it entered the queue, the latest time.
  int64_t limit_us = sched::kNoDeadline;  ///< When its time limit ends it.
  int64_t tpot_us = 0;                    ///< Longest gap between tokens; 0: any.
  int64_t started_us = 0;                 ///< Its first step; 0 before.
  int64_t first_token_us = 0;             ///< 0 before.
  int64_t last_token_us = 0;
  int64_t waited_us = 0;   ///< In the queue, until the step that has not run yet; then 0.
  int64_t held_bytes = 0;  ///< Counts against max_queued_bytes.

  int32_t cached_tokens = 0;    ///< Of the prompt, before a preemption.
  int32_t computed_before = 0;  ///< Tokens that were computed when it was preempted.
  int32_t preemptions = 0;
};

/// Of a valid request: its times are bounded, so that no sum overflows.
Placement PlaceOf(const Request& request, int64_t submitted_us);

/// What a waiting request holds in memory, apart from constants: the prompt and the lists of its
/// settings.
int64_t HeldBytes(const Request& request, int64_t prompt_tokens);

}  // namespace slipstream::executor
