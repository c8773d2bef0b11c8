// Beam search: which continuations of which beams go on, and which are answers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::decode {

/// When a search with as many answers as beams ends.
enum class EarlyStopping : uint8_t {
  kNo = 0,   ///< When no running beam, ended at its present length, would be better than the worst.
  kYes = 1,  ///< At once.
  kNever = 2,  ///< As kNo, but at the length that gives it its best score.
};

struct BeamSearchOptions {
  int32_t num_beams = 1;
  int32_t max_tokens = 16;  ///< Of an answer.
  float length_penalty =
      1.0f;  ///< A score is the sum of log-probabilities / length^length_penalty.
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::vector<TokenId> end_ids;
};

/// A pure function of the rows it is given, with the rules of Hugging Face's `generate`: of the
/// max(2, 1 + end ids) * num_beams best continuations of all beams, the best num_beams that do not
/// end go on, and those that end are answers if they are among the best num_beams of all. Equal
/// scores go to the lower beam, then to the lower id. Sums are rounded to f32 token by token; the
/// power of the length is of the numerics contract. Not thread-safe.
class BeamSearch {
 public:
  /// A beam that goes on: the beam of the last step that it continues, and with what.
  struct Continuation {
    int32_t parent = 0;
    TokenId token = 0;
  };
  struct Hypothesis {
    std::vector<TokenId> tokens;  ///< Generated ones, the end id included.
    float score = 0.0f;
  };

  /// num_beams, max_tokens: at least 1.
  explicit BeamSearch(BeamSearchOptions options);

  /// Rows that Advance wants: 1 before the first step, then one for each running beam.
  size_t num_rows() const { return beams_.size(); }
  /// One step. `rows[b]` holds the log-probabilities of the token after running beam b, over the
  /// whole vocabulary; minus infinity excludes a token. Not after done().
  void Advance(std::span<const std::span<const float>> rows);

  /// The beams that go on, best first; their order is the order of the next rows. At max_tokens,
  /// those that would.
  const std::vector<Continuation>& running() const { return running_; }
  bool done() const { return done_; }
  /// The answers so far, best first; at most num_beams.
  const std::vector<Hypothesis>& hypotheses() const { return hypotheses_; }

 private:
  struct Beam {
    std::vector<TokenId> tokens;
    float score = 0.0f;
  };
  struct Candidate {
    float score = 0.0f;
    int32_t parent = 0;
    TokenId token = 0;
  };

  std::vector<Candidate> BestCandidates(std::span<const std::span<const float>> rows) const;
  float Normalize(float score, int32_t length) const;
  void Keep(const Candidate& candidate, float score);
  bool full() const { return hypotheses_.size() == static_cast<size_t>(options_.num_beams); }

  BeamSearchOptions options_;
  int32_t length_ = 0;  // generated tokens of a running beam
  std::vector<Beam> beams_;
  std::vector<Continuation> running_;
  std::vector<Hypothesis> hypotheses_;
  bool done_ = false;
};

}  // namespace slipstream::decode
