#include "executor/runtime.h"

#include <new>
#include <string>
#include <utility>

#include "core/cpu_features.h"
#include "core/resource_exhausted.h"

namespace slipstream {
namespace {

constexpr int32_t kMaxThreads = 1024;

}  // namespace

Result<Runtime> Runtime::Create(const RuntimeConfig& config) {
  if (config.threads < 0 || config.threads > kMaxThreads) {
    return Status(StatusCode::kInvalidArgument,
                  "threads is " + std::to_string(config.threads) + "; it must be from 1 to " +
                      std::to_string(kMaxThreads) + ", or 0 for one per physical core.");
  }
  try {
    const Result<CpuPath> path = core::ResolveCpuPath(config.cpu_path);
    if (!path.ok()) return path.status();
    auto pool = core::ThreadPool::Create(config.threads > 0 ? config.threads : core::UsableCores());
    if (!pool.ok()) return pool.status();
    Runtime runtime;
    runtime.impl_ = std::make_shared<Impl>();
    runtime.impl_->pool = *std::move(pool);
    runtime.impl_->path = *path;
    return runtime;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("No memory is left to create the runtime. Free memory.");
  }
}

int32_t Runtime::threads() const { return impl_->pool->threads(); }

const char* Runtime::cpu_path() const { return core::CpuPathName(impl_->path); }

}  // namespace slipstream
