#include "executor/model.h"

#include <new>

#include "core/resource_exhausted.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/dispatch.h"
#include "executor/engine_impl.h"
#include "executor/executor.h"
#include "executor/runtime.h"

namespace slipstream {

namespace {

// The layout of a block follows from the engine file and from the backend; "cpu-1" changes with the
// latter.
kv::ImageIdentity IdentityOf(const engine::Manifest& manifest) {
  kv::ImageIdentity identity{.build_id = manifest.build_id, .layouts = {}};
  for (const engine::KvGroup& group : manifest.kv_groups)
    identity.layouts.push_back(group.dtype + "/cpu-1");
  return identity;
}

}  // namespace

Result<std::unique_ptr<exec::Backend>> Model::Impl::MakeBackend() const {
  const Engine::Impl& parts = *engine.impl();
  return exec::CreateCpuBackend(*runtime.impl()->pool, runtime.impl()->path, parts.file->manifest(),
                                parts.file->SectionText("plan.cpu"), parts.weights);
}

Result<std::unique_ptr<exec::Backend>> Model::Impl::TakeBackend() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (prepared) return std::move(prepared);
  }
  return MakeBackend();
}

Result<Model> Model::Create(const Runtime& runtime, const Engine& engine) {
  try {
    auto impl = std::make_shared<Impl>(runtime, engine);
    Result<std::unique_ptr<exec::Backend>> backend = impl->MakeBackend();
    if (!backend.ok()) return backend.status();
    impl->prepared = *std::move(backend);
    Model model;
    model.impl_ = std::move(impl);
    return model;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("No memory is left to create the model. Free memory.");
  }
}

const Engine& Model::engine() const { return impl_->engine; }

Result<std::unique_ptr<Executor>> Executor::Create(const Model& model,
                                                   const ExecutorConfig& config) {
  try {
    const std::shared_ptr<Model::Impl>& impl = model.impl();
    Result<std::unique_ptr<exec::Backend>> backend = impl->TakeBackend();
    if (!backend.ok()) return backend.status();
    executor::ExecutorParts parts;
    parts.backend = *std::move(backend);
    parts.facts = {impl->engine.limits(), impl->engine.eos_token_ids(), impl->engine.tokenizer()};
    parts.identity = IdentityOf(impl->engine.impl()->file->manifest());
    parts.math = &exec::RowMathOf(impl->runtime.impl()->path);
    parts.keep_alive = impl;
    return executor::CreateExecutor(std::move(parts), config);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("No memory is left to create the executor. Free memory.");
  }
}

}  // namespace slipstream
