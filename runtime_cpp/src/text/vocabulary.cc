#include "text/vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

#include "core/excerpt.h"
#include "text/byte_alphabet.h"

namespace slipstream::text {
namespace {

uint64_t Hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Offsets and sizes are 32 and 30 bits wide.
constexpr size_t kMaxArena = (size_t{1} << 30) - 1;

}  // namespace

void Vocabulary::Reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  arena_.reserve(bytes);
  Rehash(std::bit_ceil(tokens * 2 + 16));
}

void Vocabulary::Rehash(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot{});
  for (size_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].kind == kIndexed) {
      Insert(Hash(Bytes(static_cast<TokenId>(id))), static_cast<TokenId>(id));
    }
  }
}

void Vocabulary::Insert(uint64_t hash, TokenId id) {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].id >= 0) slot = (slot + 1) & mask;
  slots_[slot] = {static_cast<uint32_t>(hash >> 32), id};
}

Vocabulary::Kind Vocabulary::Store(std::string_view spelling, std::string* out) const {
  const bool text = alphabet_ == Alphabet::kText;
  if (!text && AppendSpelledBytes(spelling, out)) return kIndexed;
  out->append(spelling);
  return text ? kIndexed : kVerbatim;
}

Status Vocabulary::Add(std::string_view spelling, int64_t id) {
  const auto name = [&] {
    return "token '" + core::Excerpt(spelling) + "' with id " + std::to_string(id);
  };
  if (id < 0 || id >= kMaxIds) {
    return {StatusCode::kInvalidArgument,
            name() + ": ids must be from 0 to " + std::to_string(kMaxIds - 1)};
  }
  if (Contains(static_cast<TokenId>(id))) {
    return {StatusCode::kInvalidArgument, name() + ": the id is already that of '" +
                                              core::Excerpt(Spelling(static_cast<TokenId>(id))) +
                                              "'; every id may occur once"};
  }
  const size_t offset = arena_.size();
  if (offset + spelling.size() > kMaxArena) {
    return {StatusCode::kInvalidArgument,
            name() + ": the tokens together are larger than the limit of 1 GiB; shorten them"};
  }
  const Kind kind = Store(spelling, &arena_);
  const std::string_view bytes = std::string_view(arena_).substr(offset);
  const bool taken =
      kind == kIndexed ? FindBytes(bytes) >= 0 : verbatim_.contains(std::string(spelling));
  if (taken) {
    return {StatusCode::kInvalidArgument, name() + ": the token is already there with id " +
                                              std::to_string(FindSpelling(spelling)) +
                                              "; every token may occur once"};
  }
  if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(id + 1);
  Entry& entry = entries_[id];
  entry.offset = static_cast<uint32_t>(offset);
  entry.size = static_cast<uint32_t>(bytes.size()) & 0x3FFFFFFFu;
  if (kind == kIndexed) {
    if ((++indexed_count_) * 2 > slots_.size()) Rehash(std::bit_ceil(indexed_count_ * 4 + 16));
    Insert(Hash(bytes), static_cast<TokenId>(id));
  } else {
    verbatim_.emplace(spelling, static_cast<TokenId>(id));
  }
  entry.kind = kind;  // after Rehash, which inserts what is already known
  ++count_;
  return Status::Ok();
}

std::string_view Vocabulary::Bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return {};
  const Entry& entry = entries_[id];
  return std::string_view(arena_).substr(entry.offset, entry.size);
}

std::string Vocabulary::Spelling(TokenId id) const {
  if (!Contains(id)) return {};
  const bool spell = alphabet_ == Alphabet::kByteLevel && IsIndexed(id);
  return spell ? SpellBytes(Bytes(id)) : std::string(Bytes(id));
}

std::array<TokenId, 256> Vocabulary::ByteTokens() const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::array<TokenId, 256> ids{};
  for (size_t byte = 0; byte < ids.size(); ++byte)
    ids[byte] = FindSpelling(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
  return ids;
}

TokenId Vocabulary::FindBytes(std::string_view bytes) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = Hash(bytes);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask; slots_[slot].id >= 0; slot = (slot + 1) & mask) {
    if (slots_[slot].hash == tag && Bytes(slots_[slot].id) == bytes) return slots_[slot].id;
  }
  return -1;
}

TokenId Vocabulary::FindSpelling(std::string_view spelling) const {
  std::string scratch;
  return FindSpelling(spelling, &scratch);
}

TokenId Vocabulary::FindSpelling(std::string_view spelling, std::string* scratch) const {
  scratch->clear();
  if (Store(spelling, scratch) == kIndexed) return FindBytes(*scratch);
  const auto it = verbatim_.find(std::string(spelling));
  return it == verbatim_.end() ? -1 : it->second;
}

}  // namespace slipstream::text
