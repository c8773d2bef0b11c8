#include "decode/beam_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/numerics.h"

namespace slipstream::decode {

BeamSearch::BeamSearch(BeamSearchOptions options) : options_(std::move(options)), beams_(1) {}

void BeamSearch::Advance(std::span<const std::span<const float>> rows) {
  const std::vector<Candidate> candidates = BestCandidates(rows);
  ++length_;
  const size_t width = static_cast<size_t>(options_.num_beams);
  const std::vector<TokenId>& ends = options_.end_ids;
  const bool at_limit = length_ == options_.max_tokens;
  const bool closed = full() && options_.early_stopping == EarlyStopping::kYes;
  std::vector<Beam> next;
  running_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool ended = std::find(ends.begin(), ends.end(), candidate.token) != ends.end();
    if ((ended || at_limit) && i < width && !closed)
      Keep(candidate, Normalize(candidate.score, length_));
    if (!ended && next.size() < width) {
      next.push_back({beams_[candidate.parent].tokens, candidate.score});
      next.back().tokens.push_back(candidate.token);
      running_.push_back({candidate.parent, candidate.token});
    }
  }
  beams_ = std::move(next);
  if (at_limit || beams_.empty()) {
    done_ = true;
  } else if (full()) {
    const bool best_at_the_end =
        options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0.0f;
    const int32_t length = best_at_the_end ? options_.max_tokens : length_;
    done_ = options_.early_stopping == EarlyStopping::kYes ||
            !(Normalize(beams_.front().score, length) > hypotheses_.back().score);
  }
}

std::vector<BeamSearch::Candidate> BeamSearch::BestCandidates(
    std::span<const std::span<const float>> rows) const {
  const size_t count =
      std::max<size_t>(2, 1 + options_.end_ids.size()) * static_cast<size_t>(options_.num_beams);
  // A heap of the best so far with the worst of them in front. Beams and ids ascend, so that a
  // later one must beat it by its score alone.
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  };
  std::vector<Candidate> best;
  best.reserve(count);
  for (size_t parent = 0; parent < rows.size(); ++parent) {
    for (size_t token = 0; token < rows[parent].size(); ++token) {
      const float score = rows[parent][token] + beams_[parent].score;
      if (!(score > -std::numeric_limits<float>::infinity())) continue;
      if (best.size() == count) {
        if (!(score > best.front().score)) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back({score, static_cast<int32_t>(parent), static_cast<TokenId>(token)});
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

float BeamSearch::Normalize(float score, int32_t length) const {
  const float n = static_cast<float>(length);
  if (options_.length_penalty == 1.0f) return score / n;
  return score / core::Exp(options_.length_penalty * core::Log(n));
}

void BeamSearch::Keep(const Candidate& candidate, float score) {
  const auto place = std::find_if(hypotheses_.begin(), hypotheses_.end(),
                                  [score](const Hypothesis& h) { return h.score < score; });
  if (place == hypotheses_.end() && full()) return;
  Hypothesis answer{beams_[candidate.parent].tokens, score};
  answer.tokens.push_back(candidate.token);
  hypotheses_.insert(place, std::move(answer));
  if (hypotheses_.size() > static_cast<size_t>(options_.num_beams)) hypotheses_.pop_back();
}

}  // namespace slipstream::decode
