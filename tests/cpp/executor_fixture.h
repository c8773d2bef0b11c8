// Makes executors on the paged fake, and answers what a request alone must give.
#pragma once

#include <algorithm>

#include "decode/logits_pipeline.h"
#include "decode/logprobs.h"
#include "executor/executor.h"
#include "executor_paged_fake.h"

namespace slipstream::executor {

struct Fixture {
  FakeOptions fake;
  ExecutorConfig config{.kv_memory_bytes = 1 << 20};
  EngineLimits limits{
      .max_seq_len = 96, .max_batch_size = 16, .max_num_tokens = 64, .vocab_size = kFakeVocab};
  std::vector<TokenId> eos = {0};
  std::string build_id = "fake";
  std::optional<Tokenizer> tokenizer;
  std::shared_ptr<FakeWatch> watch = std::make_shared<FakeWatch>();

  Result<std::unique_ptr<Executor>> TryMake() {
    ExecutorParts parts;
    parts.backend = std::make_unique<PagedFake>(fake, watch);
    parts.facts = {limits, eos, tokenizer};
    parts.identity = {.build_id = build_id, .layouts = {"full", "window"}};
    return CreateExecutor(std::move(parts), config);
  }
  std::unique_ptr<Executor> Make() {
    auto executor = TryMake();
    EXPECT_TRUE(executor.ok()) << executor.status().message();
    return *std::move(executor);
  }
};

/// The whole answer of a request that was submitted without callback.
inline Response Collect(Executor& executor, RequestId id) {
  Response all;
  for (;;) {
    Result<Response> news = executor.Next(id);
    if (!news.ok()) {
      ADD_FAILURE() << news.status().message();
      return all;
    }
    all.Join(*std::move(news));
    if (all.finished()) return all;
  }
}

/// The request alone: no cache, no batch, no chunks, no threads.
inline Response Alone(const Fixture& fixture, const Request& request) {
  Response answer;
  std::vector<TokenId> history = request.prompt_token_ids;
  const SamplingParams& sampling = request.sampling;
  decode::Sampler sampler(core::ScalarRowMath());
  std::vector<TokenId> end_ids = sampling.stop_token_ids;
  if (!sampling.ignore_eos) end_ids.insert(end_ids.end(), fixture.eos.begin(), fixture.eos.end());
  if (sampling.prompt_logprobs) {
    for (size_t next = 1; next < history.size(); ++next) {
      const std::vector<TokenId> head(history.begin(), history.begin() + next);
      answer.prompt_logprobs.push_back(decode::ScoreToken(
          core::ScalarRowMath(), FakeLogits(head, fixture.fake.window, fixture.fake.vocab),
          history[next], *sampling.prompt_logprobs));
    }
  }
  while (!answer.finished()) {
    const std::vector<float> logits = FakeLogits(history, fixture.fake.window, fixture.fake.vocab);
    std::vector<float> row = logits;
    // A fresh one for each token: nothing that it remembers may matter.
    const auto pipeline =
        decode::LogitsPipeline::Make(sampling, end_ids, request.logits_processors);
    if (pipeline != nullptr) {
      answer.status =
          pipeline->Apply(history, static_cast<int32_t>(request.prompt_token_ids.size()), row);
      if (!answer.status.ok()) {
        answer.finish_reason = FinishReason::kError;
        return answer;
      }
    }
    const Result<TokenId> token =
        sampler.Sample(row, {sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p,
                             sampling.seed.value_or(0), history.size(), sampling.typical_p});
    if (sampling.logprobs) {
      answer.logprobs.push_back(
          decode::ScoreToken(core::ScalarRowMath(), logits, *token, *sampling.logprobs));
    }
    if (sampling.return_logits)
      answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
    history.push_back(*token);
    answer.token_ids.push_back(*token);
    if (std::find(end_ids.begin(), end_ids.end(), *token) != end_ids.end()) {
      answer.finish_reason = FinishReason::kStop;
      answer.stop_token = *token;
    } else if (static_cast<int32_t>(answer.token_ids.size()) == sampling.max_tokens ||
               static_cast<int32_t>(history.size()) == fixture.limits.max_seq_len) {
      answer.finish_reason = FinishReason::kLength;
    }
  }
  return answer;
}

}  // namespace slipstream::executor
