// What a Runtime holds.
#pragma once

#include <memory>

#include "core/thread_pool.h"
#include "slipstream/config.h"
#include "slipstream/engine.h"

namespace slipstream {

struct Runtime::Impl {
  std::unique_ptr<core::ThreadPool> pool;
  CpuPath path = CpuPath::kScalar;  ///< Never kAuto.
};

}  // namespace slipstream
