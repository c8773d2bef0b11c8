// The weights of one version: tensors of the mapped file, or owned overlays that replaced them.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/manifest.h"
#include "slipstream/status.h"

namespace slipstream::engine {

/// A tensor's bytes; alive as long as the WeightStore that gave it.
struct TensorView {
  const Tensor* tensor = nullptr;
  const std::byte* data = nullptr;
};

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  /// kNotFound names the tensor.
  virtual Result<TensorView> Find(std::string_view name) const = 0;
  virtual uint64_t version() const = 0;
};

}  // namespace slipstream::engine
