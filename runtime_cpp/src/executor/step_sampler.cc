#include "executor/step_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "decode/logprobs.h"

namespace slipstream::executor {
namespace {

// Settings that a backend which samples itself does not know.
bool OnHostOnly(const RequestState& request) {
  return request.pipeline() != nullptr || request.sample_options().typical_p < 1.0f;
}

}  // namespace

Status StepSampler::Sample(exec::Backend& backend, exec::StepHandle step,
                           std::span<const StepEntry> entries) {
  size_t sampling = 0, outputs = 0;
  bool reads = !backend.samples();
  for (const StepEntry& entry : entries) {
    sampling += entry.samples;
    outputs += entry.scored_rows + entry.samples;
    reads |= entry.scored_rows > 0 ||
             (entry.samples && (entry.request->needs_logits() || OnHostOnly(*entry.request) ||
                                !entry.request->siblings.empty()));
  }
  if (outputs == 0) return Status::Ok();
  std::vector<TokenId> tokens;
  if (backend.samples() && sampling > 0) {
    Result<std::vector<TokenId>> sampled = SampleOnBackend(backend, step, entries, sampling);
    if (!sampled.ok()) return sampled.status();
    tokens = *std::move(sampled);
  }
  exec::RowsView rows;
  if (reads) {
    const Result<exec::RowsView> read = ReadLogits(backend, step, outputs);
    if (!read.ok()) return read.status();
    rows = *read;
  }
  int64_t r = 0;      // row of the step's logits
  size_t sample = 0;  // of the backend's tokens
  for (const StepEntry& entry : entries) {
    ScorePrompt(entry, rows, r);
    r += entry.scored_rows;
    if (!entry.samples) continue;
    std::span<const float> logits;
    if (reads) logits = Row(rows, r);
    ++r;
    const size_t s = sample++;
    if (entry.request->finished()) continue;  // one of its prompt rows was bad
    const Result<TokenId> token = backend.samples() && !OnHostOnly(*entry.request)
                                      ? Result<TokenId>(tokens[s])
                                      : ChooseToken(entry.request, logits);
    Take(entry.request, token, logits);
    for (const auto& sibling : entry.request->siblings)
      Take(sibling.get(), ChooseToken(sibling.get(), logits), logits);
  }
  return Status::Ok();
}

void StepSampler::ScorePrompt(const StepEntry& entry, const exec::RowsView& rows,
                              int64_t first) const {
  RequestState* request = entry.request;
  for (int32_t i = 0; i < entry.scored_rows; ++i) {
    const std::span<const float> logits = Row(rows, first + i);
    const int32_t next = request->prompt_scored() + 1;
    if (Status status = sampler_.Check(logits, next); !status.ok()) {
      request->Finish(FinishReason::kError, std::move(status));
      return;
    }
    request->AppendPromptScores(decode::ScoreToken(math_, logits, request->tokens()[next],
                                                   *request->sampling().prompt_logprobs));
  }
}

Result<exec::RowsView> StepSampler::ReadLogits(exec::Backend& backend, exec::StepHandle step,
                                               size_t expected) const {
  const Result<exec::RowsView> rows = backend.Read(step, exec::OutputKind::kLogits);
  if (!rows.ok()) return rows;
  if (rows->rows != static_cast<int32_t>(expected) || rows->cols < vocab_size_) {
    return Status(StatusCode::kInternal, "A step gave " + std::to_string(rows->rows) + " rows of " +
                                             std::to_string(rows->cols) + " logits; expected " +
                                             std::to_string(expected) + " of at least " +
                                             std::to_string(vocab_size_) + ". Please report this.");
  }
  return rows;
}

Result<std::vector<TokenId>> StepSampler::SampleOnBackend(exec::Backend& backend,
                                                          exec::StepHandle step,
                                                          std::span<const StepEntry> entries,
                                                          size_t expected) const {
  exec::SamplingBatch batch;
  for (const StepEntry& entry : entries) {
    if (!entry.samples) continue;
    const decode::SampleOptions options = entry.request->sample_options();
    batch.rows.push_back({.temperature = options.temperature,
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .min_p = options.min_p,
                          .seed = options.seed,
                          .position = options.position});
  }
  Result<exec::SampledTokens> sampled = backend.Sample(step, batch);
  if (!sampled.ok()) return sampled.status();
  if (sampled->tokens.size() != expected) {
    return Status(StatusCode::kInternal,
                  "A step sampled " + std::to_string(sampled->tokens.size()) +
                      " tokens; expected " + std::to_string(expected) + ". Please report this.");
  }
  return std::move(sampled->tokens);
}

Result<TokenId> StepSampler::ChooseToken(RequestState* request, std::span<const float> logits) {
  const decode::SampleOptions options = request->sample_options();
  if (request->pipeline() == nullptr) return sampler_.Sample(logits, options);
  if (Status status = sampler_.Check(logits, options.position); !status.ok()) return status;
  processed_.assign(logits.begin(), logits.end());
  if (Status status =
          request->pipeline()->Apply(request->tokens(), request->prompt_tokens(), processed_);
      !status.ok())
    return status;
  return sampler_.Sample(processed_, options);
}

void StepSampler::Take(RequestState* request, const Result<TokenId>& token,
                       std::span<const float> logits) const {
  if (!token.ok()) {
    request->Finish(FinishReason::kError, token.status());
    return;
  }
  TokenLogprobs scores;
  if (request->scores_tokens())
    scores = decode::ScoreToken(math_, logits, *token, request->sampling().logprobs.value_or(0));
  request->Append(*token, std::move(scores), logits);
}

}  // namespace slipstream::executor
