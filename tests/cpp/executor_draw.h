// Drawn requests, and what an answer has in common with that of the request alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "executor_fixture.h"

namespace slipstream::executor {

inline void DrawProcessing(std::mt19937& random, int32_t vocab_size, Request* request) {
  SamplingParams& sampling = request->sampling;
  const auto id = [&] { return static_cast<TokenId>(random() % vocab_size); };
  if (random() % 2 == 0) sampling.typical_p = 0.1f + static_cast<float>(random() % 90) / 100;
  if (random() % 2 == 0)
    sampling.repetition_penalty = 0.5f + static_cast<float>(random() % 20) / 10;
  if (random() % 2 == 0) sampling.presence_penalty = static_cast<float>(random() % 5) - 2;
  if (random() % 2 == 0) sampling.frequency_penalty = static_cast<float>(random() % 5) - 2;
  if (random() % 3 == 0) sampling.no_repeat_ngram_size = 1 + static_cast<int32_t>(random() % 4);
  if (random() % 3 == 0) sampling.logit_bias = {{id(), 4.0f}, {id(), -4.0f}};
  if (random() % 4 == 0) sampling.allowed_token_ids = {id(), id(), id(), id(), id()};
  if (random() % 3 == 0) sampling.bad_words_ids = {{id()}, {id(), id()}};
  if (random() % 3 == 0)
    sampling.min_tokens = 1 + static_cast<int32_t>(random() % sampling.max_tokens);
  if (random() % 4 == 0) {
    request->logits_processors.push_back(
        [](std::span<const TokenId> tokens, std::span<float> logits) {
          logits[tokens.back() % logits.size()] += static_cast<float>(tokens.size() % 7);
        });
  }
}

inline Request DrawRequest(std::mt19937& random, const EngineLimits& limits) {
  Request request;
  const int32_t longest = random() % 4 == 0 ? limits.max_seq_len - 1 : 24;
  request.prompt_token_ids.resize(1 + random() % longest);
  // Half of them begin alike, so that they share what is cached.
  const size_t common = random() % 2 ? random() % (request.prompt_token_ids.size() + 1) : 0;
  for (size_t i = 0; i < request.prompt_token_ids.size(); ++i) {
    request.prompt_token_ids[i] =
        static_cast<TokenId>((i < common ? i * 7 : random()) % limits.vocab_size);
  }
  SamplingParams& sampling = request.sampling;
  sampling.max_tokens = static_cast<int32_t>(random() % 10 == 0 ? 1000 : 1 + random() % 24);
  sampling.temperature = random() % 4 == 0 ? 0.0f : 0.2f + static_cast<float>(random() % 20) / 10;
  if (random() % 3 == 0) sampling.top_k = 1 + static_cast<int32_t>(random() % 20);
  if (random() % 3 == 0) sampling.top_p = 0.05f + static_cast<float>(random() % 95) / 100;
  if (random() % 3 == 0) sampling.min_p = static_cast<float>(random() % 50) / 100;
  sampling.seed = uint64_t{random()} << 32 | random();
  if (random() % 3 == 0)
    sampling.stop_token_ids = {static_cast<TokenId>(random() % limits.vocab_size)};
  sampling.ignore_eos = random() % 2;
  if (random() % 2 == 0) sampling.logprobs = static_cast<int32_t>(random() % 5);
  if (random() % 6 == 0) sampling.prompt_logprobs = static_cast<int32_t>(random() % 4);
  sampling.return_logits = random() % 8 == 0;
  if (random() % 3 == 0) DrawProcessing(random, limits.vocab_size, &request);
  request.priority = static_cast<int32_t>(random() % 3) - 1;
  if (random() % 4 == 0) request.ttft_target = std::chrono::milliseconds(1 + random() % 20);
  if (random() % 4 == 0) request.tpot_target = std::chrono::milliseconds(1 + random() % 5);
  if (random() % 4 == 0) request.cache_salt = "tenant";
  request.read_cache = random() % 8 != 0;
  request.write_cache = random() % 8 != 0;
  return request;
}

inline void ExpectSame(const Response& got, const Response& want, const Request& request,
                       bool cancelled) {
  ASSERT_EQ(got.prompt_tokens, static_cast<int32_t>(request.prompt_token_ids.size()));
  ASSERT_EQ(got.seed, *request.sampling.seed);
  if (got.finish_reason == FinishReason::kCancelled) {
    ASSERT_TRUE(cancelled);
    ASSERT_LE(got.token_ids.size(), want.token_ids.size());
    ASSERT_TRUE(std::equal(got.token_ids.begin(), got.token_ids.end(), want.token_ids.begin()));
    ASSERT_TRUE(std::equal(got.logprobs.begin(), got.logprobs.end(), want.logprobs.begin()));
    return;
  }
  ASSERT_EQ(got.finish_reason, want.finish_reason) << got.status.message();
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs, want.logprobs);
  ASSERT_EQ(got.prompt_logprobs, want.prompt_logprobs);
  ASSERT_EQ(got.logits, want.logits);
  ASSERT_EQ(got.stop_token, want.stop_token);
}

}  // namespace slipstream::executor
