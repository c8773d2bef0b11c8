#include "executor/validate.h"

#include <chrono>
#include <cmath>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace slipstream::executor {
namespace {

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
constexpr int32_t kMostIterations = 1 << 20;
constexpr int32_t kHighestPriority = 1000;
constexpr size_t kLongestSalt = 256;
constexpr size_t kMostRanges = 1024;
constexpr int32_t kMostEvents = 1 << 20;

template <class... Parts>
Status Invalid(const Parts&... parts) {
  std::ostringstream message;
  message.imbue(std::locale::classic());
  (message << ... << parts);
  return Status(StatusCode::kInvalidArgument, message.str());
}

Result<int32_t> ResolveLimit(const char* field, int32_t value, int32_t engine_limit) {
  if (value < 0)
    return Invalid(field, " is ", value, "; it must be 0 (the engine's limit, ", engine_limit,
                   ") or positive.");
  if (value > engine_limit) {
    return Status(StatusCode::kLimitExceeded,
                  std::string(field) + " is " + std::to_string(value) +
                      "; the engine was built for at most " + std::to_string(engine_limit) +
                      ". Lower it or rebuild the engine with a larger limit.");
  }
  return value == 0 ? engine_limit : value;
}

Status ValidatePrompt(const Request& request, int32_t vocab_size, bool has_tokenizer) {
  if (request.prompt.empty() && request.prompt_token_ids.empty()) {
    return Invalid("The prompt is empty. Give prompt or prompt_token_ids at least one token.");
  }
  if (!request.prompt.empty() && !request.prompt_token_ids.empty()) {
    return Invalid("Both prompt (", request.prompt.size(), " bytes) and prompt_token_ids (",
                   request.prompt_token_ids.size(), " ids) are set. Give exactly one of them.");
  }
  if (!request.prompt.empty() && !has_tokenizer) {
    return Invalid("prompt is text, and this executor has no tokenizer. Give prompt_token_ids.");
  }
  if (const size_t bad = text::FindInvalidUtf8(request.prompt); bad != std::string::npos) {
    return Invalid("prompt is not valid UTF-8 at byte ", bad,
                   ". Decode the text with its own encoding first.");
  }
  return ValidateTokenIds(request.prompt_token_ids, vocab_size, "prompt_token_ids");
}

Status ValidateTexts(const char* field, const std::vector<std::string>& texts,
                     const char* alternative, bool has_tokenizer) {
  if (!texts.empty() && !has_tokenizer) {
    return Invalid(field, " holds ", texts.size(),
                   " strings, and this executor has no tokenizer to find them with. Use ",
                   alternative, ".");
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty())
      return Invalid(field, "[", i, "] is empty. Remove it or give it at least one character.");
    if (const size_t bad = text::FindInvalidUtf8(texts[i]); bad != std::string::npos) {
      return Invalid(field, "[", i, "] is not valid UTF-8 at byte ", bad,
                     ". Decode the text with its own encoding first.");
    }
  }
  return Status::Ok();
}

Status ValidateLogprobs(const char* field, const std::optional<int32_t>& count) {
  if (!count || (*count >= 0 && *count <= kMaxLogprobs)) return Status::Ok();
  return Invalid(field, " is ", *count, "; it must be from 0 (the token itself only) to ",
                 kMaxLogprobs, ".");
}

// The settings of the logits pipeline. The comparisons are written so that NaN fails them.
Status ValidateProcessing(const SamplingParams& sampling, int32_t vocab_size) {
  if (sampling.min_tokens < 0 || sampling.min_tokens > sampling.max_tokens) {
    return Invalid("min_tokens is ", sampling.min_tokens, "; it must be from 0 to max_tokens, ",
                   sampling.max_tokens, ".");
  }
  if (!(sampling.repetition_penalty > 0.0f) || std::isinf(sampling.repetition_penalty)) {
    return Invalid("repetition_penalty is ", sampling.repetition_penalty,
                   "; it must be a finite number above 0 (1 changes nothing).");
  }
  if (!std::isfinite(sampling.presence_penalty)) {
    return Invalid("presence_penalty is ", sampling.presence_penalty,
                   "; it must be a finite number (0 changes nothing).");
  }
  if (!std::isfinite(sampling.frequency_penalty)) {
    return Invalid("frequency_penalty is ", sampling.frequency_penalty,
                   "; it must be a finite number (0 changes nothing).");
  }
  if (sampling.no_repeat_ngram_size < 0) {
    return Invalid("no_repeat_ngram_size is ", sampling.no_repeat_ngram_size,
                   "; it must be positive, or 0 to allow repetition.");
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return Invalid("logit_bias holds id ", id, ", outside the model's vocabulary of ", vocab_size,
                     " ids (0 to ", vocab_size - 1,
                     "). Check that the ids come from this model's tokenizer.");
    }
    if (!std::isfinite(bias)) {
      return Invalid("logit_bias of id ", id, " is ", bias,
                     "; it must be a finite number. To exclude a token use bad_words_ids.");
    }
  }
  for (size_t i = 0; i < sampling.bad_words_ids.size(); ++i) {
    const std::string name = "bad_words_ids[" + std::to_string(i) + "]";
    if (sampling.bad_words_ids[i].empty())
      return Invalid(name, " is empty. Remove it or give it at least one id.");
    if (Status status = ValidateTokenIds(sampling.bad_words_ids[i], vocab_size, name.c_str());
        !status.ok())
      return status;
  }
  return ValidateTokenIds(sampling.allowed_token_ids, vocab_size, "allowed_token_ids");
}

Status ValidateTime(const char* field, std::chrono::milliseconds time) {
  if (time.count() >= 0 && time <= kLongest) return Status::Ok();
  return Invalid(field, " is ", time.count(), " ms; it must be from 1 to ", kLongest.count(),
                 ", or 0 for none.");
}

Status ValidateRetention(const std::vector<KvRetention>& retention) {
  if (retention.size() > kMostRanges) {
    return Invalid("retention has ", retention.size(), " ranges; the limit is ", kMostRanges, ".");
  }
  for (size_t i = 0; i < retention.size(); ++i) {
    const KvRetention& range = retention[i];
    const std::string name = "retention[" + std::to_string(i) + "]";
    if (range.first < 0 || range.end <= range.first) {
      return Invalid(name, " is from ", range.first, " to ", range.end,
                     "; it must begin at 0 or later and end after its begin.");
    }
    if (range.priority < 0 || range.priority > 100)
      return Invalid(name, ".priority is ", range.priority, "; it must be from 0 to 100.");
    if (Status status = ValidateTime((name + ".duration").c_str(), range.duration); !status.ok())
      return status;
  }
  return Status::Ok();
}

Status ValidatePlace(const Request& request) {
  if (request.priority < -kHighestPriority || request.priority > kHighestPriority) {
    return Invalid("priority is ", request.priority, "; it must be from ", -kHighestPriority,
                   " to ", kHighestPriority, ".");
  }
  if (Status status = ValidateSalt(request.cache_salt); !status.ok()) return status;
  if (Status status = ValidateRetention(request.retention); !status.ok()) return status;
  if (Status status = ValidateTime("ttft_target", request.ttft_target); !status.ok()) return status;
  if (Status status = ValidateTime("tpot_target", request.tpot_target); !status.ok()) return status;
  return ValidateTime("time_limit", request.time_limit);
}

Status ValidateSampling(const SamplingParams& sampling, int32_t vocab_size, bool has_tokenizer) {
  if (sampling.max_tokens < 1)
    return Invalid("max_tokens is ", sampling.max_tokens, "; it must be at least 1.");
  // The comparisons are written so that NaN fails them.
  if (!(sampling.temperature >= 0.0f) || std::isinf(sampling.temperature)) {
    return Invalid("temperature is ", sampling.temperature,
                   "; it must be a finite number of at least 0 (0 is greedy).");
  }
  if (sampling.top_k < 0)
    return Invalid("top_k is ", sampling.top_k, "; it must be positive, or 0 to keep all tokens.");
  if (!(sampling.top_p > 0.0f && sampling.top_p <= 1.0f)) {
    return Invalid("top_p is ", sampling.top_p,
                   "; it must be above 0 and at most 1 (1 keeps all tokens).");
  }
  if (!(sampling.min_p >= 0.0f && sampling.min_p <= 1.0f)) {
    return Invalid("min_p is ", sampling.min_p, "; it must be from 0 to 1 (0 keeps all tokens).");
  }
  if (!(sampling.typical_p > 0.0f && sampling.typical_p <= 1.0f)) {
    return Invalid("typical_p is ", sampling.typical_p,
                   "; it must be above 0 and at most 1 (1 keeps all tokens).");
  }
  if (Status status = ValidateLogprobs("logprobs", sampling.logprobs); !status.ok()) return status;
  if (Status status = ValidateLogprobs("prompt_logprobs", sampling.prompt_logprobs); !status.ok())
    return status;
  if (Status status = ValidateProcessing(sampling, vocab_size); !status.ok()) return status;
  if (Status status = ValidateTexts("stop", sampling.stop, "stop_token_ids", has_tokenizer);
      !status.ok())
    return status;
  if (Status status =
          ValidateTexts("bad_words", sampling.bad_words, "bad_words_ids", has_tokenizer);
      !status.ok())
    return status;
  return ValidateTokenIds(sampling.stop_token_ids, vocab_size, "stop_token_ids");
}

}  // namespace

Status ValidateSalt(std::string_view cache_salt) {
  if (cache_salt.size() <= kLongestSalt) return Status::Ok();
  return Invalid("cache_salt has ", cache_salt.size(), " bytes; the limit is ", kLongestSalt,
                 ". Give a hash of it.");
}

Result<EngineLimits> ResolveLimits(const ExecutorConfig& config, const EngineLimits& engine) {
  EngineLimits limits = engine;
  const Result<int32_t> tokens =
      ResolveLimit("max_num_tokens", config.max_num_tokens, engine.max_num_tokens);
  if (!tokens.ok()) return tokens.status();
  const Result<int32_t> batch =
      ResolveLimit("max_batch_size", config.max_batch_size, engine.max_batch_size);
  if (!batch.ok()) return batch.status();
  if (config.max_queued_requests < 1) {
    return Invalid("max_queued_requests is ", config.max_queued_requests,
                   "; it must be at least 1.");
  }
  if (config.max_queued_tokens < 0 || config.max_queued_bytes < 0) {
    return Invalid("max_queued_tokens is ", config.max_queued_tokens, " and max_queued_bytes ",
                   config.max_queued_bytes, "; both must be positive, or 0 for no limit.");
  }
  if (config.ageing.count() < 0 || config.ageing > kLongest) {
    return Invalid("ageing is ", config.ageing.count(), " ms; it must be from 0 (never) to ",
                   kLongest.count(), ".");
  }
  if (config.iteration_history < 0 || config.iteration_history > kMostIterations) {
    return Invalid("iteration_history is ", config.iteration_history, "; it must be from 0 to ",
                   kMostIterations, ".");
  }
  if (config.max_kv_events < 0 || config.max_kv_events > kMostEvents) {
    return Invalid("max_kv_events is ", config.max_kv_events, "; it must be from 0 to ",
                   kMostEvents, ".");
  }
  if (config.host_kv_bytes > 0 && !config.prefix_cache) {
    return Status(
        StatusCode::kInvalidArgument,
        "host_kv_bytes is set and prefix_cache is off; the host tier keeps what the cache "
        "knows. Turn prefix_cache on or set host_kv_bytes to 0.");
  }
  limits.max_num_tokens = *tokens;
  limits.max_batch_size = *batch;
  return limits;
}

Status ValidateTokenIds(std::span<const TokenId> ids, int32_t vocab_size, const char* what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return Invalid(what, "[", i, "] is ", ids[i], ", outside the model's vocabulary of ",
                     vocab_size, " ids (0 to ", vocab_size - 1,
                     "). Check that the ids come from this model's tokenizer.");
    }
  }
  return Status::Ok();
}

Status ValidateRequest(const Request& request, int32_t vocab_size, bool has_tokenizer) {
  if (Status status = ValidatePrompt(request, vocab_size, has_tokenizer); !status.ok())
    return status;
  for (size_t i = 0; i < request.logits_processors.size(); ++i) {
    if (!request.logits_processors[i])
      return Invalid("logits_processors[", i, "] is empty. Remove it or give it a function.");
  }
  if (Status status = ValidatePlace(request); !status.ok()) return status;
  return ValidateSampling(request.sampling, vocab_size, has_tokenizer);
}

Status ValidateAnswers(const SamplingParams& sampling, int32_t max_batch_size) {
  if (sampling.n < 1) return Invalid("n is ", sampling.n, "; it must be at least 1.");
  const int32_t best_of = sampling.best_of.value_or(sampling.n);
  if (best_of < sampling.n) {
    return Invalid("best_of is ", best_of, "; it must be at least n, ", sampling.n,
                   ", or absent for n.");
  }
  if (best_of <= max_batch_size) return Status::Ok();
  const char* field = sampling.best_of ? "best_of" : "n";
  return Status(StatusCode::kLimitExceeded,
                std::string(field) + " is " + std::to_string(best_of) + "; max_batch_size is " +
                    std::to_string(max_batch_size) + " sequences. Lower " + field +
                    " or raise max_batch_size.");
}

}  // namespace slipstream::executor
