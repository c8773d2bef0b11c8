#include "executor/request_state.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/resource_exhausted.h"

namespace slipstream::executor {
namespace {

std::vector<TokenId> EndIds(const SamplingParams& sampling, const ModelFacts& facts) {
  std::vector<TokenId> ids = sampling.stop_token_ids;
  if (!sampling.ignore_eos)
    ids.insert(ids.end(), facts.eos_token_ids.begin(), facts.eos_token_ids.end());
  return ids;
}

}  // namespace

RequestState::RequestState(const ModelFacts& facts, SamplingParams sampling,
                           std::vector<TokenId> prompt, uint64_t seed,
                           ResponseCallback response_callback,
                           std::vector<LogitsProcessor> logits_processors)
    : callback(std::move(response_callback)),
      facts_(facts),
      sampling_(std::move(sampling)),
      tokens_(std::move(prompt)),
      prompt_tokens_(static_cast<int32_t>(tokens_.size())),
      total_limit_(std::min<int64_t>(int64_t{prompt_tokens_} + sampling_.max_tokens,
                                     facts.limits.max_seq_len)),
      seed_(seed),
      end_ids_(EndIds(sampling_, facts)),
      pipeline_(decode::LogitsPipeline::Make(sampling_, end_ids_, std::move(logits_processors))),
      stops_(sampling_.stop, sampling_.include_stop_str_in_output) {
  if (facts.tokenizer) decoder_.emplace(*facts.tokenizer, sampling_.skip_special_tokens);
}

decode::SampleOptions RequestState::sample_options() const {
  return {.temperature = sampling_.temperature,
          .top_k = sampling_.top_k,
          .top_p = sampling_.top_p,
          .min_p = sampling_.min_p,
          .seed = seed_,
          .position = tokens_.size(),
          .typical_p = sampling_.typical_p};
}

void RequestState::Append(TokenId token, TokenLogprobs scores, std::span<const float> logits) {
  // A processor of the caller may choose an id that min_tokens excluded: then it is text.
  const bool ends = generated() >= sampling_.min_tokens &&
                    std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
  tokens_.push_back(token);
  news_.token_ids.push_back(token);
  if (scores_tokens()) cumulative_logprob_ += scores.logprob;
  if (sampling_.logprobs) news_.logprobs.push_back(std::move(scores));
  if (sampling_.return_logits)
    news_.logits.insert(news_.logits.end(), logits.begin(), logits.end());
  has_news_ = true;
  if (ends) {
    news_.stop_token = token;  // an id that ends generation is no part of the text
    End(FinishReason::kStop);
    return;
  }
  if (decoder_) news_.text += stops_.Push(decoder_->Push(token), StopStringsCount());
  if (stops_.matched()) {
    End(FinishReason::kStop);
  } else if (static_cast<int64_t>(tokens_.size()) >= total_limit_) {
    End(FinishReason::kLength);
  }
}

void RequestState::End(FinishReason reason) {
  if (decoder_ && !stops_.matched()) {
    news_.text += stops_.Push(decoder_->Flush(), StopStringsCount());
    news_.text += stops_.Flush();
    // The replacement of a cut character may itself complete a stop string.
    if (stops_.matched() && reason == FinishReason::kLength) reason = FinishReason::kStop;
  }
  if (stops_.matched() && reason == FinishReason::kStop)
    news_.stop_string = sampling_.stop[stops_.matched_index()];
  news_.finish_reason = reason;
  has_news_ = true;
}

void RequestState::Fail(const Status& status) noexcept {
  try {
    Finish(FinishReason::kError, Status(status));
  } catch (const std::bad_alloc&) {
    Finish(FinishReason::kError, core::ResourceExhausted("Out of memory."));
  }
}

void RequestState::Finish(FinishReason reason, Status status) noexcept {
  if (finished()) return;
  news_.status = std::move(status);
  try {
    End(reason);
  } catch (const std::bad_alloc&) {
    if (reason != FinishReason::kError) {
      news_.status = core::ResourceExhausted(
          "No memory is left for the end of the answer. Lower max_tokens or free memory.");
    }
    news_.finish_reason = FinishReason::kError;
    has_news_ = true;
  }
}

Response RequestState::TakeNews() {
  const FinishReason reason = news_.finish_reason;
  Response news = std::exchange(news_, Response());
  news_.finish_reason = reason;  // finished() stays true
  has_news_ = false;
  news.id = id;
  news.index = index;
  news.last = last;
  news.cumulative_logprob = cumulative_logprob_;
  news.prompt_tokens = prompt_tokens_;
  news.seed = seed_;
  news.cached_tokens = place.cached_tokens;
  news.preemptions = place.preemptions;
  news.total_us = NowUs() - place.submitted_us;
  if (place.started_us > 0) news.queued_us = place.started_us - place.submitted_us;
  if (place.first_token_us > 0) news.first_token_us = place.first_token_us - place.submitted_us;
  return news;
}

}  // namespace slipstream::executor
