// What the step in work does, for counters and the history of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/step_builder.h"
#include "kv/kv_manager.h"
#include "slipstream/stats.h"

namespace slipstream::executor {

struct StepRecord {
  Iteration iteration;
  int64_t known_tokens = 0;  ///< Of its requests, before it.
  int64_t recomputed = 0;    ///< Of its rows: computed before, then preempted.

  /// Before the step changes the requests. `entries_too`: also what each of them does in it. Throws
  /// std::bad_alloc.
  void Describe(const std::vector<StepEntry>& entries, const kv::KvManager& kv, bool entries_too);
};

}  // namespace slipstream::executor
