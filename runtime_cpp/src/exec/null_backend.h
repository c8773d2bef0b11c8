// A backend without a model, for tests of the scheduler, the block manager and the executor.
#pragma once

#include <memory>
#include <vector>

#include "exec/backend.h"
#include "slipstream/engine.h"

namespace slipstream::exec {

struct NullBackendConfig {
  EngineLimits limits;
  std::vector<KvGroupInfo> groups = {KvGroupInfo{.bytes_per_block = 1024}};
  int32_t hidden_size = 16;
};

/// Logits and hidden rows are a pure function of the tokens that the query's position sees in every
/// group, read back through the block tables from a pool that holds tokens instead of keys and
/// values. So a wrong block table, a block that was freed too early or a skipped prefill changes
/// the outputs, while batch, chunking and order of requests do not. It checks batches exactly as
/// the CPU backend does. Error: kInvalidArgument for limits below 1.
Result<std::unique_ptr<Backend>> CreateNullBackend(const NullBackendConfig& config);

}  // namespace slipstream::exec
