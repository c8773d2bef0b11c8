#include "executor/request_maker.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/bad_words.h"
#include "executor/family.h"
#include "executor/validate.h"
#include "sched/admission.h"

namespace slipstream::executor {
namespace {

Result<uint64_t> FreshSeed() {
  try {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  } catch (const std::exception& error) {
    return Status(StatusCode::kIo, std::string("The system gives no random seed: ") + error.what() +
                                       ". Set SamplingParams::seed.");
  }
}

// The answers beside the first one. Log-probabilities of the prompt are told once.
template <class Make>
void AddSiblings(const Make& make, SamplingParams& sampling, RequestState* leader) {
  const int32_t answers = sampling.best_of.value_or(sampling.n);
  if (answers == 1) return;
  auto family = std::make_shared<Family>();
  family->unfinished = answers;
  family->wanted = sampling.n;
  family->ranked = answers > sampling.n;
  leader->family = family;
  sampling.prompt_logprobs.reset();
  for (int32_t index = 1; index < answers; ++index) {
    leader->siblings.push_back(make(index));
    leader->siblings.back()->family = family;
  }
}

Result<std::vector<TokenId>> PromptIds(const ModelFacts& facts, Request& request) {
  if (request.prompt.empty()) return std::move(request.prompt_token_ids);
  Result<std::vector<TokenId>> ids =
      facts.tokenizer->Encode(request.prompt, {.add_special_tokens = request.add_special_tokens});
  if (!ids.ok()) return ids;
  if (ids->empty()) {
    return Status(StatusCode::kInvalidArgument, "prompt gives no tokens. Give at least one token.");
  }
  if (Status status = ValidateTokenIds(*ids, facts.limits.vocab_size, "tokens of prompt");
      !status.ok())
    return status;
  return ids;
}

}  // namespace

Result<std::unique_ptr<RequestState>> MakeRequest(const ModelFacts& facts, const EngineLoop& loop,
                                                  Request request, ResponseCallback callback) {
  const int64_t submitted_us = NowUs();  // its time begins before it is tokenized
  if (Status status =
          ValidateRequest(request, facts.limits.vocab_size, facts.tokenizer.has_value());
      !status.ok()) {
    return status;
  }
  if (facts.tokenizer) {
    if (Status status =
            ResolveBadWords(*facts.tokenizer, facts.limits.vocab_size, &request.sampling);
        !status.ok())
      return status;
  }
  if (Status status = ValidateAnswers(request.sampling, facts.limits.max_batch_size); !status.ok())
    return status;
  Placement place = PlaceOf(request, submitted_us);
  Result<std::vector<TokenId>> prompt = PromptIds(facts, request);
  if (!prompt.ok()) return prompt.status();
  const int64_t prompt_tokens = static_cast<int64_t>(prompt->size());
  const int64_t max_tokens = request.sampling.max_tokens;
  const int64_t max_seq_len = facts.limits.max_seq_len;
  const std::vector<int64_t> need =
      loop.BlocksNeeded(std::min(prompt_tokens + max_tokens, max_seq_len));
  if (Status status = sched::CheckFits(
          {prompt_tokens, max_tokens, max_seq_len, need, loop.total_blocks(), loop.block_tokens()});
      !status.ok()) {
    return status;
  }
  place.held_bytes = HeldBytes(request, prompt_tokens);
  const Result<uint64_t> seed =
      request.sampling.seed ? Result<uint64_t>(*request.sampling.seed) : FreshSeed();
  if (!seed.ok()) return seed.status();
  const auto make = [&](int32_t index) {
    auto state =
        std::make_unique<RequestState>(facts, request.sampling, *prompt, AnswerSeed(*seed, index),
                                       callback, request.logits_processors);
    state->place = place;
    state->index = index;
    return state;
  };
  auto leader = make(0);
  AddSiblings(make, request.sampling, leader.get());
  return leader;
}

}  // namespace slipstream::executor
