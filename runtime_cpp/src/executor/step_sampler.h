// From the logits of a step to the next token of each request that samples in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/row_math.h"
#include "decode/sampler.h"
#include "exec/backend.h"
#include "executor/step_builder.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::executor {

/// Holds scratch memory; belongs to the loop's thread.
class StepSampler {
 public:
  StepSampler(int32_t vocab_size, const core::RowMath& math)
      : vocab_size_(vocab_size), math_(math), sampler_(math) {}

  /// Waits for the step, scores prompt rows and appends a token to each request of `entries` that
  /// samples, and to its siblings, which draw from the same row. An error concerns all entries;
  /// what is wrong with a row, or with the settings of its request, ends that request only. How a
  /// request is sampled never depends on the others.
  Status Sample(exec::Backend& backend, exec::StepHandle step, std::span<const StepEntry> entries);

 private:
  /// The logits of the step, one row for each of `expected` output rows.
  Result<exec::RowsView> ReadLogits(exec::Backend& backend, exec::StepHandle step,
                                    size_t expected) const;
  /// Row `r` without its padding columns, which are never looked at.
  std::span<const float> Row(const exec::RowsView& rows, int64_t r) const {
    return {rows.data + r * rows.stride, static_cast<size_t>(vocab_size_)};
  }
  /// Chooses the tokens of all requests that sample, on the backend.
  Result<std::vector<TokenId>> SampleOnBackend(exec::Backend& backend, exec::StepHandle step,
                                               std::span<const StepEntry> entries,
                                               size_t expected) const;
  /// Chooses the next token of a request from its raw row.
  Result<TokenId> ChooseToken(RequestState* request, std::span<const float> logits);
  /// Scores the prompt tokens that follow the rows from `first` on.
  void ScorePrompt(const StepEntry& entry, const exec::RowsView& rows, int64_t first) const;
  /// Tells a request its next token, chosen from the raw row `logits`, or why there is none.
  void Take(RequestState* request, const Result<TokenId>& token,
            std::span<const float> logits) const;

  const int32_t vocab_size_;
  const core::RowMath& math_;
  decode::Sampler sampler_;
  std::vector<float> processed_;  // a row after the pipeline of its request
};

}  // namespace slipstream::executor
