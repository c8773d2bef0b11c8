#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <tuple>

#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

// Up to this many symbols, scanning for the lowest rank beats a queue; the quadratic cost stays
// small.
constexpr size_t kShortWord = 48;

// What stands for a space in vocabularies of text.
constexpr std::string_view kMark = "\xE2\x96\x81";

// Words are a few bytes long: comparing in place is faster than calls of memchr and memcmp.
bool IsMark(std::string_view word, size_t at) {
  return word.size() - at >= kMark.size() && word[at] == kMark[0] && word[at + 1] == kMark[1] &&
         word[at + 2] == kMark[2];
}

// Where the first mark at or behind `from` starts; the size of the word when there is none.
size_t FindMark(std::string_view word, size_t from) {
  while (from < word.size() && !IsMark(word, from)) ++from;
  return from;
}

}  // namespace

void MergeTable::Reserve(size_t merges) {
  const size_t size = std::bit_ceil(merges * 4 / 3 + 2);
  slots_.assign(size, Slot{});
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  count_ = 0;
}

void MergeTable::Set(TokenId left, TokenId right, Merge merge) {
  if ((count_ + 1) * 4 > slots_.size() * 3) {
    const std::vector<Slot> old = std::move(slots_);
    Reserve(old.size());
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) {
        Set(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFFu),
            slot.merge);
      }
    }
  }
  const uint64_t key = Key(left, right);
  size_t slot = Home(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  count_ += slots_[slot].key == kEmpty;
  slots_[slot] = {key, merge};
}

BpeModel::BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(vocabulary),
      merges_(std::move(merges)),
      options_(std::move(options)),
      whole_(std::make_unique<std::atomic<uint8_t>[]>(vocabulary.size())) {
  byte_ids_.fill(-1);
  ascii_ids_.fill(-1);
  if (options_.bytes) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      byte_ids_[byte] = vocabulary.FindBytes(std::string_view(&c, 1));
    }
  } else if (options_.byte_fallback) {
    byte_ids_ = vocabulary.ByteTokens();
  }
  if (!options_.bytes) {
    for (int byte = 0; byte < 128; ++byte) {
      const char c = static_cast<char>(byte);
      ascii_ids_[byte] = vocabulary.FindBytes(std::string_view(&c, 1));
    }
  }
  cut_at_marks_ = CanCutAtMarks();
}

// Vocabularies of text often come without a pre-tokenizer: the whole text is one word. Few merges,
// if any, join a mark to another character before it. Behind all characters but those the text
// merges on its own, and short parts of it are remembered.
bool BpeModel::CanCutAtMarks() {
  const bool plain = !options_.bytes && !options_.ignore_merges && options_.prefix.empty() &&
                     options_.suffix.empty() && vocabulary_.FindBytes(kMark) >= 0;
  const bool all_bytes = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  if (!plain || (options_.byte_fallback && !all_bytes)) return false;
  bool can = true;
  merges_.ForEach([&](TokenId left, TokenId right) {
    const std::string_view before = vocabulary_.Bytes(left);
    const bool reaches_over =
        vocabulary_.Bytes(right).starts_with(kMark) && !before.empty() && !before.ends_with(kMark);
    if (!reaches_over) return;
    joins_mark_[static_cast<uint8_t>(before.back())] = true;
    // A token that stands for a byte is not spelled as the text that it comes from.
    can = can && std::find(byte_ids_.begin(), byte_ids_.end(), left) == byte_ids_.end();
  });
  return can;
}

bool BpeModel::Encode(std::string_view word, std::vector<TokenId>* ids) const {
  if (!cut_at_marks_) return EncodeCached(word, ids);
  while (!word.empty()) {
    // Behind the marks that the part starts with, up to the next ones that can be cut off.
    size_t end = 0;
    do {
      while (IsMark(word, end)) end += kMark.size();
      end = FindMark(word, end);
    } while (end < word.size() && joins_mark_[static_cast<uint8_t>(word[end - 1])]);
    EncodeCached(word.substr(0, end), ids);
    word.remove_prefix(end);
  }
  return true;
}

bool BpeModel::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  if (word.empty()) return true;
  const TokenId whole = vocabulary_.FindBytes(word);
  if (whole < 0) {
    Merge(word, ids);
    return true;
  }
  if (options_.ignore_merges) {
    ids->push_back(whole);
    return true;
  }
  std::atomic<uint8_t>& known = whole_[whole];
  const uint8_t state = known.load(std::memory_order_relaxed);
  if (state == kYes) {
    ids->push_back(whole);
    return true;
  }
  const size_t first = ids->size();
  Merge(word, ids);
  if (state == kUnknown) {
    const bool single = ids->size() == first + 1 && ids->back() == whole;
    known.store(single ? kYes : kNo, std::memory_order_relaxed);
  }
  return true;
}

// The ids of the single bytes, with the rule for bytes that have none.
void BpeModel::Symbols(std::string_view word, std::vector<TokenId>* symbols) const {
  bool last_unknown = false;
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      symbols->push_back(id);
      last_unknown = false;
    } else if (options_.unk_id >= 0) {
      if (!last_unknown || !options_.fuse_unk) symbols->push_back(options_.unk_id);
      last_unknown = true;
    }
  }
}

// The same for characters, each with its affixes.
void BpeModel::CharSymbols(std::string_view word, std::vector<TokenId>* symbols) const {
  bool unknown = false;  // an unknown symbol waits for its neighbours
  std::string affixed;
  const auto flush = [&] {
    if (unknown) symbols->push_back(options_.unk_id);
    unknown = false;
  };
  for (size_t position = 0; position < word.size();) {
    const size_t size = DecodeUtf8(word, position).size;
    std::string_view symbol = word.substr(position, size);
    const bool has_prefix = position > 0 && !options_.prefix.empty();
    position += size;
    const bool has_suffix = position == word.size() && !options_.suffix.empty();
    if (has_prefix || has_suffix) {
      affixed.assign(has_prefix ? options_.prefix : "").append(symbol);
      if (has_suffix) affixed += options_.suffix;
      symbol = affixed;
    }
    const TokenId id = symbol.size() == 1 && static_cast<uint8_t>(symbol[0]) < 128
                           ? ascii_ids_[static_cast<uint8_t>(symbol[0])]
                           : vocabulary_.FindBytes(symbol);
    if (id >= 0) {
      flush();
      symbols->push_back(id);
      continue;
    }
    if (options_.byte_fallback) {
      const bool all = std::all_of(symbol.begin(), symbol.end(), [&](char byte) {
        return byte_ids_[static_cast<uint8_t>(byte)] >= 0;
      });
      if (all) {  // an unknown symbol that waits goes on waiting, as in Hugging Face
        for (const char byte : symbol) symbols->push_back(byte_ids_[static_cast<uint8_t>(byte)]);
        continue;
      }
    }
    if (options_.unk_id < 0) continue;
    if (!options_.fuse_unk) flush();
    unknown = true;
  }
  flush();
}

void BpeModel::Merge(std::string_view word, std::vector<TokenId>* ids) const {
  const size_t first = ids->size();
  if (options_.bytes) {
    Symbols(word, ids);
  } else {
    CharSymbols(word, ids);
  }
  if (ids->size() - first <= kShortWord) {
    MergeShort(first, ids);
  } else {
    MergeLong(first, ids);
  }
}

// Repeats: find the pair with the lowest rank (the leftmost of equals), merge it, renew the two
// ranks beside it.
void BpeModel::MergeShort(size_t first, std::vector<TokenId>* ids) const {
  TokenId* symbols = ids->data() + first;
  size_t count = ids->size() - first;
  if (count < 2) return;
  MergeTable::Merge pairs[kShortWord];
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge* merge = merges_.Find(symbols[i], symbols[i + 1]);
    pairs[i] = merge != nullptr ? *merge : MergeTable::Merge{kNoRank, -1};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].id;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i - 1] = pairs[i];
    }
    --count;
    // The shift moved pairs[best + 1] to best: right for every pair behind, wrong only for the two
    // touched ones.
    if (best + 1 < count) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids->resize(first + count);
}

// The same result with a queue: O(n log n) for words of any length.
void BpeModel::MergeLong(size_t first, std::vector<TokenId>* ids) const {
  struct Symbol {
    TokenId id;
    int64_t previous;
    int64_t next;
  };
  using Candidate = std::tuple<uint32_t, int64_t, TokenId, TokenId,
                               TokenId>;  // rank, position, left, right, merged
  const auto count = static_cast<int64_t>(ids->size() - first);
  std::vector<Symbol> symbols(count);
  for (int64_t i = 0; i < count; ++i)
    symbols[i] = {(*ids)[first + i], i - 1, i + 1 < count ? i + 1 : -1};
  std::vector<Candidate> candidates;
  candidates.reserve(count);
  const auto candidate = [&](int64_t left, auto&& add) {
    const TokenId a = symbols[left].id;
    const TokenId b = symbols[symbols[left].next].id;
    if (const MergeTable::Merge* merge = merges_.Find(a, b))
      add(Candidate{merge->rank, left, a, b, merge->id});
  };
  for (int64_t i = 0; i + 1 < count; ++i)
    candidate(i, [&](const Candidate& c) { candidates.push_back(c); });
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(
      std::greater<>(), std::move(candidates));
  const auto enqueue = [&](const Candidate& c) { queue.push(c); };
  constexpr TokenId kRemoved = -1;
  while (!queue.empty()) {
    const auto [rank, left, a, b, merged] = queue.top();
    queue.pop();
    const int64_t right = symbols[left].next;
    // An entry is stale when either side has been merged since.
    if (symbols[left].id != a || right < 0 || symbols[right].id != b) continue;
    symbols[left].id = merged;
    symbols[left].next = symbols[right].next;
    if (symbols[right].next >= 0) symbols[symbols[right].next].previous = left;
    symbols[right].id = kRemoved;
    if (symbols[left].previous >= 0) candidate(symbols[left].previous, enqueue);
    if (symbols[left].next >= 0) candidate(left, enqueue);
  }
  ids->resize(first);
  for (int64_t i = 0; i >= 0; i = symbols[i].next) ids->push_back(symbols[i].id);
}

}  // namespace slipstream::text
