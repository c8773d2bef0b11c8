// Remembers the ids of words that were encoded before: most words of a text are frequent ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "slipstream/types.h"

namespace slipstream::text {

/// A table of short words with few ids. Fixed in size (2 MiB): a new word takes the place of
/// another one. Thread-safe without locks: a reader that meets a writer misses, a writer that meets
/// another one gives up. What is found is what was put, so that results do not depend on what is in
/// the table.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 24;
  static constexpr size_t kMaxIds = 8;

  WordCache() : entries_(std::make_unique<Entry[]>(kEntries)) {}

  /// A word in the form that the table compares. Words that are empty or longer than kMaxBytes have
  /// none.
  class Key {
   public:
    explicit Key(std::string_view word);
    bool usable() const { return size_ > 0; }

   private:
    friend class WordCache;
    uint64_t words_[3] = {};  // the bytes, zeros behind
    uint64_t hash_ = 0;
    uint32_t size_ = 0;  // in bytes; 0: not usable
  };

  /// Appends the ids of the word to `ids`; false when it is not there. `key` must be usable.
  bool Find(const Key& key, std::vector<TokenId>* ids) const;
  /// Remembers the ids of the word, which must be the same each time, unless there are more than
  /// kMaxIds. `key` must be usable.
  void Put(const Key& key, std::span<const TokenId> ids);

 private:
  // Two neighbours may hold a word.
  static constexpr int kBits = 15;
  static constexpr size_t kEntries = size_t{1} << kBits;

  // A sequence lock: `version` is odd while a writer is at work. Everything is atomic, so that a
  // reader may look meanwhile; it throws away what it saw when the version has changed.
  struct alignas(64) Entry {
    std::atomic<uint32_t> version{0};
    std::atomic<uint32_t> sizes{0};  // bytes of the word, ids << 8, 16 bits of the hash << 16
    std::atomic<uint64_t> words[3]{};
    std::atomic<uint64_t> ids[kMaxIds / 2]{};
  };
  static_assert(sizeof(Entry) == 64);

  Entry& EntryOf(const Key& key) const { return entries_[key.hash_ >> (64 - kBits)]; }
  Entry& SecondEntryOf(const Key& key) const { return entries_[key.hash_ >> (64 - kBits) ^ 1]; }
  static bool FindIn(const Entry& entry, const Key& key, std::vector<TokenId>* ids);
  static uint32_t SizesOf(const Key& key, size_t ids) {
    return key.size_ | static_cast<uint32_t>(ids) << 8 |
           static_cast<uint32_t>(key.hash_ & 0xFFFF) << 16;
  }

  std::unique_ptr<Entry[]> entries_;
};

}  // namespace slipstream::text
