#include "executor/step_runner.h"

#include <new>
#include <string>
#include <utility>

#include "core/resource_exhausted.h"

namespace slipstream::executor {

Status ShutDown() noexcept {
  return Status(StatusCode::kUnavailable, "The executor is shut down; create a new one.");
}

Status FromException(const std::exception& error) noexcept {
  try {
    if (!dynamic_cast<const std::bad_alloc*>(&error)) {
      return Status(StatusCode::kInternal,
                    std::string("A step failed: ") + error.what() + ". Please report this.");
    }
  } catch (const std::bad_alloc&) {  // the same as running out of it in the step
  }
  return core::ResourceExhausted(
      "The process ran out of memory during a step. Lower kv_memory_bytes, max_batch_size or "
      "max_num_tokens.");
}

StepRunner::StepRunner(std::unique_ptr<exec::Backend> backend, std::unique_ptr<kv::HostPool> host,
                       int32_t vocab_size, const core::RowMath& math)
    : backend_(std::move(backend)),
      mover_(*backend_, std::move(host)),
      sampler_(vocab_size, math) {}

StepRunner::~StepRunner() {
  if (in_flight_) backend_->Release(step_);  // it reads batch_
}

Status StepRunner::Start(std::vector<StepEntry> entries, Batcher* batcher) noexcept {
  entries_ = std::move(entries);
  times_ = {};
  try {
    return TryStart(batcher);
  } catch (const std::exception& error) {
    return FromException(error);
  }
}

Status StepRunner::TryStart(Batcher* batcher) {
  const int64_t begin_us = NowUs();
  BuildStep(entries_, batcher->kv(), &batch_);
  if (Status status = CopyBlocks(batcher); !status.ok()) return status;
  submitted_us_ = NowUs();
  times_.schedule_us = submitted_us_ - begin_us;
  const Result<exec::StepHandle> step = backend_->Submit(batch_);
  if (!step.ok()) return step.status();
  step_ = *step;
  in_flight_ = true;
  return Status::Ok();
}

Status StepRunner::CopyBlocks(Batcher* batcher) {
  const std::vector<core::BlockCopy> copies = batcher->kv().TakeCopies();
  if (copies.empty()) return Status::Ok();
  Status status;
  try {
    status = mover_.Copy(copies);
  } catch (const std::exception& error) {
    status = FromException(error);
  }
  if (status.ok()) return status;
  batcher->kv().Reset();
  for (const auto& request : batcher->running()) request->Fail(status);
  return status;
}

Status StepRunner::Finish(Batcher* batcher) noexcept {
  Status status;
  try {
    status = TryFinish(batcher);
  } catch (const std::exception& error) {
    status = FromException(error);
  }
  backend_->Release(step_);
  in_flight_ = false;
  return status;
}

Status StepRunner::TryFinish(Batcher* batcher) {
  Status status = backend_->Wait(step_);
  const int64_t computed_us = NowUs();
  times_.model_us = computed_us - submitted_us_;
  if (!status.ok()) return status;
  cost_.Observe(batch_.rows(), times_.model_us);
  batcher->Advance(entries_);
  const int64_t advanced_us = NowUs();
  times_.schedule_us += advanced_us - computed_us;
  if (!batch_.outputs.empty()) status = sampler_.Sample(*backend_, step_, entries_);
  times_.sample_us = NowUs() - advanced_us;
  return status;
}

}  // namespace slipstream::executor
