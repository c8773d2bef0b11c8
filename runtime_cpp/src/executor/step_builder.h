// Writes the ragged batch of a step.
#pragma once

#include <vector>

#include "exec/backend.h"
#include "executor/request_state.h"
#include "kv/kv_manager.h"

namespace slipstream::executor {

/// The rows of one request in a step.
struct StepEntry {
  RequestState* request = nullptr;
  int32_t rows = 0;
  bool samples = false;  ///< Its last row's logits give the next token.
};

/// Fills `batch`, reusing its memory. Every entry's rows start at request->computed(), and its
/// blocks are extended over them already. Output rows come in the order of the entries that sample.
void BuildStep(const std::vector<StepEntry>& entries, const kv::KvManager& kv,
               exec::StepBatch* batch);

}  // namespace slipstream::executor
