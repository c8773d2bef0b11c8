// Runs given tokens through a backend and gives the logits of every position: what verification
// against a reference, perplexity and calibration stand on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/backend.h"
#include "slipstream/engine.h"
#include "slipstream/status.h"

namespace slipstream::executor {

/// Owns a backend with a KV cache of one sequence of max_seq_len tokens. Not thread-safe.
class TeacherForcing {
 public:
  /// Errors: kResourceExhausted, and what the backend says.
  static Result<TeacherForcing> Create(const Model& model);

  /// f32 [tokens.size(), vocab_size], row-major: row i holds the logits of the token after
  /// tokens[i], by the same steps as generation, `chunk_tokens` rows at a time. Each call starts a
  /// new sequence. Errors: kInvalidArgument (chunk_tokens < 1), kLimitExceeded (chunk_tokens above
  /// max_num_tokens or max_batch_size, which bounds the logits rows of a step; more tokens than
  /// max_seq_len), and what Backend::Submit says of the ids.
  Result<std::vector<float>> Logits(std::span<const TokenId> tokens, int32_t chunk_tokens);

 private:
  TeacherForcing(const Model& model, std::unique_ptr<exec::Backend> backend)
      : model_(model), limits_(model.engine().limits()), backend_(std::move(backend)) {}

  Model model_;  // keeps the weights and the thread pool alive
  EngineLimits limits_;
  std::unique_ptr<exec::Backend> backend_;
  std::vector<exec::BlockTable> tables_;  // the whole sequence, block i at entry i
};

}  // namespace slipstream::executor
