#include "executor/step_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace slipstream::executor {

Status StepSampler::Sample(exec::Backend& backend, exec::StepHandle step,
                           std::span<const StepEntry> entries) {
  const size_t sampling = static_cast<size_t>(std::count_if(
      entries.begin(), entries.end(), [](const StepEntry& entry) { return entry.samples; }));
  if (sampling == 0) return Status::Ok();
  return backend.samples() ? SampleOnBackend(backend, step, entries, sampling)
                           : SampleOnHost(backend, step, entries, sampling);
}

Status StepSampler::SampleOnHost(exec::Backend& backend, exec::StepHandle step,
                                 std::span<const StepEntry> entries, size_t sampling) {
  const Result<exec::RowsView> rows = backend.Read(step, exec::OutputKind::kLogits);
  if (!rows.ok()) return rows.status();
  if (rows->rows != static_cast<int32_t>(sampling) || rows->cols < vocab_size_) {
    return Status(StatusCode::kInternal,
                  "A step gave " + std::to_string(rows->rows) + " rows of " +
                      std::to_string(rows->cols) + " logits; expected " + std::to_string(sampling) +
                      " of at least " + std::to_string(vocab_size_) + ". Please report this.");
  }
  const float* row = rows->data;
  for (const StepEntry& entry : entries) {
    if (!entry.samples) continue;
    // Columns from vocab_size on are padding and never looked at.
    const std::span<const float> logits(row, vocab_size_);
    row += rows->stride;
    Result<decode::SampledToken> token = sampler_.Sample(logits, entry.request->sample_options());
    if (token.ok()) {
      entry.request->Append(*token);
    } else {
      entry.request->Finish(FinishReason::kError, token.status());
    }
  }
  return Status::Ok();
}

Status StepSampler::SampleOnBackend(exec::Backend& backend, exec::StepHandle step,
                                    std::span<const StepEntry> entries, size_t sampling) {
  exec::SamplingBatch batch;
  for (const StepEntry& entry : entries) {
    if (!entry.samples) continue;
    const decode::SampleOptions options = entry.request->sample_options();
    batch.rows.push_back({.temperature = options.temperature,
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .min_p = options.min_p,
                          .seed = options.seed,
                          .position = options.position,
                          .logprob = options.logprob});
  }
  const Result<exec::SampledTokens> sampled = backend.Sample(step, batch);
  if (!sampled.ok()) return sampled.status();
  if (sampled->tokens.size() != sampling || sampled->logprobs.size() != sampling) {
    return Status(StatusCode::kInternal,
                  "A step sampled " + std::to_string(sampled->tokens.size()) + " tokens and " +
                      std::to_string(sampled->logprobs.size()) + " logprobs; expected " +
                      std::to_string(sampling) + ". Please report this.");
  }
  size_t r = 0;
  for (const StepEntry& entry : entries) {
    if (!entry.samples) continue;
    entry.request->Append({.id = sampled->tokens[r], .logprob = sampled->logprobs[r]});
    ++r;
  }
  return Status::Ok();
}

}  // namespace slipstream::executor
