// The weights of one version: tensors of the mapped file, or owned overlays that replaced them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/engine_file.h"
#include "engine/manifest.h"
#include "slipstream/status.h"

namespace slipstream::engine {

/// A tensor's bytes, tensor->size of them, 256-aligned; alive as long as the WeightStore that gave
/// it.
struct TensorView {
  const Tensor* tensor = nullptr;
  const std::byte* data = nullptr;
};

/// Immutable and thread-safe: another version is another WeightStore, which may keep this one for
/// what it did not replace.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  /// kNotFound names the tensor.
  virtual Result<TensorView> Find(std::string_view name) const = 0;
  virtual uint64_t version() const = 0;
};

/// The weights as they lie in `file`, which the store keeps alive. Touches no weight byte. The file
/// must have passed Verify. Error: kResourceExhausted.
Result<std::shared_ptr<const WeightStore>> MapWeights(std::shared_ptr<const EngineFile> file);

}  // namespace slipstream::engine
