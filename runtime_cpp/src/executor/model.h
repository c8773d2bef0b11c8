// What a Model holds, and the public Executor made of it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "exec/backend.h"
#include "slipstream/engine.h"

namespace slipstream {

/// The weights are shared by all executors of the model (and, through the page cache, by all
/// processes); the arena and the KV pool belong to a backend, of which every executor has its own.
struct Model::Impl {
  Impl(Runtime model_runtime, Engine model_engine)
      : runtime(std::move(model_runtime)), engine(std::move(model_engine)) {}

  /// A backend whose KV is not allocated yet. Thread-safe.
  Result<std::unique_ptr<exec::Backend>> TakeBackend();
  Result<std::unique_ptr<exec::Backend>> MakeBackend() const;

  const Runtime runtime;
  const Engine engine;
  std::mutex mutex;
  /// Made by Model::Create, so that its errors show there; the first executor takes it.
  std::unique_ptr<exec::Backend> prepared;  // guarded by mutex
};

}  // namespace slipstream
