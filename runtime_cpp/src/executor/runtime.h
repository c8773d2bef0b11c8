// What a Runtime holds.
#pragma once

#include <memory>

#include "core/thread_pool.h"
#include "executor/step_turn.h"
#include "slipstream/config.h"
#include "slipstream/engine.h"

namespace slipstream {

struct Runtime::Impl {
  std::unique_ptr<core::ThreadPool> pool;
  CpuPath path = CpuPath::kScalar;  ///< Never kAuto.
  /// Taken for each step by every executor on this Runtime.
  std::shared_ptr<executor::StepTurn> turn = std::make_shared<executor::StepTurn>();
};

}  // namespace slipstream
