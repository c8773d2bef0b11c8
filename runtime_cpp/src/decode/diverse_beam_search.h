// Beam searches side by side that avoid each other's tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/beam_search.h"

namespace slipstream::decode {

/// Groups of beams, one after the other in each step: the log-probability of a token is lowered,
/// for a group, by `diversity_penalty` for each beam of an earlier group that goes on with it in
/// this step (Hamming diversity: Vijayakumar et al., "Diverse beam search", AAAI 2018). Scores
/// include the penalties. A group ends by itself. Not thread-safe.
class DiverseBeamSearch {
 public:
  /// `group` are the options of each group, its num_beams those of one group; num_groups: at least
  /// 1; diversity_penalty: finite, 0 makes all groups alike.
  DiverseBeamSearch(const BeamSearchOptions& group, int32_t num_groups, float diversity_penalty)
      : groups_(static_cast<size_t>(num_groups), BeamSearch(group)), penalty_(diversity_penalty) {}

  /// Rows that Advance wants: those of each group that is not done, in order.
  size_t num_rows() const;
  /// One step, as BeamSearch::Advance. Not after done().
  void Advance(std::span<const std::span<const float>> rows);

  /// The beams that go on, group by group; a parent is an index into the rows of the last step.
  const std::vector<BeamSearch::Continuation>& running() const { return running_; }
  bool done() const;
  /// The answers of all groups so far, best first; equal scores by group.
  std::vector<BeamSearch::Hypothesis> hypotheses() const;

 private:
  std::vector<BeamSearch> groups_;
  float penalty_;
  std::vector<BeamSearch::Continuation> running_;
};

}  // namespace slipstream::decode
