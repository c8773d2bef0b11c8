#include "exec/backend.h"

namespace slipstream::exec {

Result<SampledTokens> Backend::Sample(StepHandle, const SamplingBatch&) {
  return Status(StatusCode::kInternal, "This backend does not sample; read its logits instead.");
}

}  // namespace slipstream::exec
