#include "sched/admission.h"

#include <algorithm>
#include <string>

namespace slipstream::sched {

Status CheckFits(const FitQuestion& question) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  if (question.prompt_tokens > question.max_seq_len - 1) {
    return Status(StatusCode::kLimitExceeded,
                  "The prompt has " + text(question.prompt_tokens) + " tokens; max_seq_len " +
                      text(question.max_seq_len) + " leaves room for at most " +
                      text(question.max_seq_len - 1) +
                      " and one generated token. Shorten the prompt or build the engine with a "
                      "larger --max-seq-len.");
  }
  for (size_t g = 0; g < question.need.size(); ++g) {
    if (question.need[g] <= question.total_blocks[g]) continue;
    const int64_t positions =
        std::min(question.prompt_tokens + question.max_tokens, question.max_seq_len);
    return Status(StatusCode::kLimitExceeded,
                  "The request can never fit the KV pool: " + text(question.prompt_tokens) +
                      " prompt tokens and max_tokens " + text(question.max_tokens) + " need " +
                      text(question.need[g]) + " blocks of " + text(question.block_tokens[g]) +
                      " tokens in cache group " + text(g) + " (" + text(positions) +
                      " positions), and the whole pool has " + text(question.total_blocks[g]) +
                      ". Lower max_tokens, shorten the prompt or raise kv_memory_bytes.");
  }
  return Status::Ok();
}

}  // namespace slipstream::sched
