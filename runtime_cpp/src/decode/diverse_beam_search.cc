#include "decode/diverse_beam_search.h"

#include <algorithm>

namespace slipstream::decode {

size_t DiverseBeamSearch::num_rows() const {
  size_t rows = 0;
  for (const BeamSearch& group : groups_) rows += group.done() ? 0 : group.num_rows();
  return rows;
}

bool DiverseBeamSearch::done() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const BeamSearch& group) { return group.done(); });
}

void DiverseBeamSearch::Advance(std::span<const std::span<const float>> rows) {
  running_.clear();
  std::vector<TokenId> taken;  // by the groups so far
  size_t first = 0;
  for (BeamSearch& group : groups_) {
    if (group.done()) continue;
    const std::span<const std::span<const float>> own = rows.subspan(first, group.num_rows());
    std::vector<std::vector<float>> lowered;
    for (const std::span<const float>& row : own) {
      lowered.emplace_back(row.begin(), row.end());
      for (const TokenId token : taken) lowered.back()[token] -= penalty_;
    }
    group.Advance(std::vector<std::span<const float>>(lowered.begin(), lowered.end()));
    for (const BeamSearch::Continuation& beam : group.running()) {
      taken.push_back(beam.token);
      if (!group.done())
        running_.push_back({beam.parent + static_cast<int32_t>(first), beam.token});
    }
    first += own.size();
  }
}

std::vector<BeamSearch::Hypothesis> DiverseBeamSearch::hypotheses() const {
  std::vector<BeamSearch::Hypothesis> all;
  for (const BeamSearch& group : groups_)
    all.insert(all.end(), group.hypotheses().begin(), group.hypotheses().end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

}  // namespace slipstream::decode
