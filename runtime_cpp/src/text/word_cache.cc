#include "text/word_cache.h"

#include <cstring>

namespace slipstream::text {
namespace {

uint64_t Load8(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Up to 7 bytes, zeros behind. Reads none outside.
uint64_t LoadFew(const char* bytes, size_t size) {
  if (size >= 4) {
    uint32_t low;
    uint32_t high;
    std::memcpy(&low, bytes, sizeof low);
    std::memcpy(&high, bytes + size - 4, sizeof high);
    return low | uint64_t{high} << 8 * (size - 4);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) word |= uint64_t{static_cast<uint8_t>(bytes[i])} << 8 * i;
  return word;
}

// Multiplications by odd numbers without a pattern spread the bits upwards, the shifts downwards.
uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 32;
}

}  // namespace

WordCache::Key::Key(std::string_view word) {
  if (word.empty() || word.size() > kMaxBytes) return;
  size_ = static_cast<uint32_t>(word.size());
  const char* bytes = word.data();
  const size_t full = word.size() / 8;
  for (size_t i = 0; i < full; ++i) words_[i] = Load8(bytes + 8 * i);
  if (const size_t rest = word.size() % 8; rest > 0) {
    // Behind eight others, the last bytes come with the ones before them.
    words_[full] =
        full > 0 ? Load8(bytes + word.size() - 8) >> 8 * (8 - rest) : LoadFew(bytes, rest);
  }
  for (const uint64_t part : words_) hash_ = Mix(hash_, part);
  hash_ = Mix(hash_, size_);
}

bool WordCache::Find(const Key& key, std::vector<TokenId>* ids) const {
  return FindIn(EntryOf(key), key, ids) || FindIn(SecondEntryOf(key), key, ids);
}

bool WordCache::FindIn(const Entry& entry, const Key& key, std::vector<TokenId>* ids) {
  const uint32_t version = entry.version.load(std::memory_order_acquire);
  // Acquiring loads: none of them may move behind the second look at the version.
  const uint32_t sizes = entry.sizes.load(std::memory_order_acquire);
  const uint32_t count = sizes >> 8 & 0xFF;
  if (sizes != SizesOf(key, count) || (version & 1) != 0) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (entry.words[i].load(std::memory_order_acquire) != key.words_[i]) return false;
  }
  TokenId found[kMaxIds];
  for (uint32_t i = 0; i < count; i += 2) {
    const uint64_t pair = entry.ids[i / 2].load(std::memory_order_acquire);
    found[i] = static_cast<TokenId>(pair & 0xFFFFFFFF);
    found[i + 1] = static_cast<TokenId>(pair >> 32);
  }
  if (entry.version.load(std::memory_order_relaxed) != version) return false;
  if (count == 1) {
    ids->push_back(found[0]);
  } else {
    ids->insert(ids->end(), found, found + count);
  }
  return true;
}

void WordCache::Put(const Key& key, std::span<const TokenId> ids) {
  if (ids.size() > kMaxIds) return;
  // The entry that has changed less often: an empty one, or by and by each of them in turn.
  Entry& first = EntryOf(key);
  Entry& second = SecondEntryOf(key);
  const bool to_first = first.version.load(std::memory_order_relaxed) <=
                        second.version.load(std::memory_order_relaxed);
  Entry& entry = to_first ? first : second;
  uint32_t version = entry.version.load(std::memory_order_relaxed);
  const bool mine = (version & 1) == 0 && entry.version.compare_exchange_strong(
                                              version, version + 1, std::memory_order_acquire);
  if (!mine) return;
  // Releasing stores: a reader that sees one of them sees the odd version, too.
  entry.sizes.store(SizesOf(key, ids.size()), std::memory_order_release);
  for (size_t i = 0; i < 3; ++i) entry.words[i].store(key.words_[i], std::memory_order_release);
  for (size_t i = 0; i < ids.size(); i += 2) {
    const auto low = static_cast<uint32_t>(ids[i]);
    const uint32_t high = i + 1 < ids.size() ? static_cast<uint32_t>(ids[i + 1]) : 0;
    entry.ids[i / 2].store(low | uint64_t{high} << 32, std::memory_order_release);
  }
  entry.version.store(version + 2, std::memory_order_release);
}

}  // namespace slipstream::text
