// What turns words into ids.
#pragma once

#include <string_view>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::text {

/// Thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `word`. False when a part of it has no token and the model has no token for
  /// unknown text.
  virtual bool Encode(std::string_view word, std::vector<TokenId>* ids) const = 0;
};

}  // namespace slipstream::text
