#include "executor/step_builder.h"

#include <algorithm>

namespace slipstream::executor {

void BuildStep(std::vector<StepEntry>& entries, const kv::KvManager& kv, exec::StepBatch* batch) {
  batch->token_ids.clear();
  batch->positions.clear();
  batch->sequences.clear();
  batch->outputs.clear();
  for (StepEntry& entry : entries) {
    const RequestState& request = *entry.request;
    const int32_t first_row = static_cast<int32_t>(batch->token_ids.size());
    const int32_t first = request.computed();
    batch->token_ids.insert(batch->token_ids.end(), request.tokens().begin() + first,
                            request.tokens().begin() + first + entry.rows);
    for (int32_t i = 0; i < entry.rows; ++i) batch->positions.push_back(first + i);
    batch->sequences.push_back(
        {.slot = request.place.slot, .first_row = first_row, .num_rows = entry.rows});
    entry.scored_rows = 0;
    if (request.scores_prompt()) {
      const int32_t begin = std::max(first, request.prompt_scored());
      const int32_t end = std::min(first + entry.rows, request.prompt_tokens() - 1);
      entry.scored_rows = std::max(0, end - begin);
      for (int32_t position = begin; position < end; ++position) {
        batch->outputs.push_back(
            {.row = first_row + position - first, .kind = exec::OutputKind::kLogits});
      }
    }
    if (entry.samples) {
      batch->outputs.push_back(
          {.row = first_row + entry.rows - 1, .kind = exec::OutputKind::kSample});
    }
  }
  batch->block_tables.resize(kv.num_groups());
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    exec::BlockTable& table = batch->block_tables[g];
    size_t stride = 0;
    for (const StepEntry& entry : entries)
      stride = std::max(stride, kv.Table(entry.request->place.slot, g).size());
    table.stride = static_cast<int32_t>(stride);
    table.blocks.assign(entries.size() * stride, -1);
    for (size_t s = 0; s < entries.size(); ++s) {
      const std::span<const int32_t> blocks = kv.Table(entries[s].request->place.slot, g);
      std::copy(blocks.begin(), blocks.end(), table.blocks.begin() + s * stride);
    }
  }
}

}  // namespace slipstream::executor
