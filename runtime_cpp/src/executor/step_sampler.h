// From the logits of a step to the next token of each request that samples in it.
#pragma once

#include <cstdint>
#include <span>

#include "core/row_math.h"
#include "decode/sampler.h"
#include "exec/backend.h"
#include "executor/step_builder.h"
#include "slipstream/status.h"

namespace slipstream::executor {

/// Holds the sampler's scratch memory; belongs to the loop's thread.
class StepSampler {
 public:
  StepSampler(int32_t vocab_size, const core::RowMath& math)
      : vocab_size_(vocab_size), sampler_(math) {}

  /// Waits for the step and appends a token to each request of `entries` that samples. An error
  /// concerns all entries; a bad row ends its own request only.
  Status Sample(exec::Backend& backend, exec::StepHandle step, std::span<const StepEntry> entries);

 private:
  Status SampleOnHost(exec::Backend& backend, exec::StepHandle step,
                      std::span<const StepEntry> entries, size_t sampling);
  Status SampleOnBackend(exec::Backend& backend, exec::StepHandle step,
                         std::span<const StepEntry> entries, size_t sampling);

  const int32_t vocab_size_;
  decode::Sampler sampler_;
};

}  // namespace slipstream::executor
