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
  /// Rows whose logits score the next prompt token: consecutive ones, the first of them that of
  /// request->prompt_scored(). Set by BuildStep.
  int32_t scored_rows = 0;
};

/// Fills `batch`, reusing its memory. Every entry's rows start at request->computed(), and its
/// blocks are extended over them already. Output rows come in the order of the entries: first those
/// that score the prompt, then the one that samples.
void BuildStep(std::vector<StepEntry>& entries, const kv::KvManager& kv, exec::StepBatch* batch);

}  // namespace slipstream::executor
