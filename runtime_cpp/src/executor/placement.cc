#include "executor/placement.h"

namespace slipstream::executor {

int64_t HeldBytes(const Request& request, int64_t prompt_tokens) {
  const SamplingParams& sampling = request.sampling;
  size_t ids = static_cast<size_t>(prompt_tokens) + sampling.stop_token_ids.size() +
               sampling.allowed_token_ids.size();
  for (const std::vector<TokenId>& word : sampling.bad_words_ids) ids += word.size();
  size_t bytes = request.cache_salt.size() + ids * sizeof(TokenId) +
                 sampling.logit_bias.size() * sizeof(sampling.logit_bias.begin()->first) * 2;
  for (const std::string& stop : sampling.stop) bytes += stop.size();
  for (const std::string& word : sampling.bad_words) bytes += word.size();
  return static_cast<int64_t>(bytes);
}

Placement PlaceOf(const Request& request, int64_t submitted_us) {
  const auto microseconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  Placement place;
  place.submitted_us = submitted_us;
  place.rank.priority = request.priority;
  if (request.ttft_target.count() > 0)
    place.rank.deadline_us = place.submitted_us + microseconds(request.ttft_target);
  if (request.time_limit.count() > 0)
    place.limit_us = place.submitted_us + microseconds(request.time_limit);
  place.tpot_us = microseconds(request.tpot_target);
  place.cache_key = request.cache_salt;
  place.read_cache = request.read_cache;
  place.write_cache = request.write_cache;
  place.retention = request.retention;
  return place;
}

}  // namespace slipstream::executor
