#include "decode/token_counts.h"

namespace slipstream::decode {

void TokenCounts::CatchUp(std::span<const TokenId> tokens, int32_t prompt_tokens) {
  for (; counted_ < tokens.size(); ++counted_) {
    const TokenId id = tokens[counted_];
    const auto [place, fresh] = places_.try_emplace(id, entries_.size());
    if (fresh) entries_.push_back({.id = id});
    if (counted_ >= static_cast<size_t>(prompt_tokens)) ++entries_[place->second].generated;
  }
}

}  // namespace slipstream::decode
