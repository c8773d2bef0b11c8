// The token table: bytes of every id, and the id of given bytes. Built once, then read by many
// threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream::text {

/// In a byte-level vocabulary tokens are kept as the bytes that they decode to: a spelling in the
/// byte-level alphabet is stored as its bytes, any other spelling as its own UTF-8. The two kinds
/// have separate look-ups, for only the first can come from text. In a vocabulary of text every
/// token is kept as it is spelled.
class Vocabulary {
 public:
  /// Ids must be below this: it bounds the memory that a hostile file can ask for, far above any
  /// real vocabulary.
  static constexpr int64_t kMaxIds = int64_t{1} << 22;

  enum class Alphabet : uint8_t { kByteLevel, kText };

  /// To be called before the first Add; kByteLevel without.
  void SetAlphabet(Alphabet alphabet) { alphabet_ = alphabet; }
  Alphabet alphabet() const { return alphabet_; }

  /// Makes room for about `tokens` tokens.
  void Reserve(size_t tokens, size_t bytes);

  /// Adds a token. Errors name the token and the id: out of range, id or spelling already taken.
  Status Add(std::string_view spelling, int64_t id);

  /// Highest id + 1.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  /// Number of tokens; smaller than size() when there are gaps.
  size_t count() const { return count_; }

  bool Contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[id].kind != kAbsent;
  }
  /// Whether words can become `id` (which must exist): FindBytes finds it.
  bool IsIndexed(TokenId id) const { return entries_[id].kind == kIndexed; }
  /// What `id` decodes to; empty for an unknown id.
  std::string_view Bytes(TokenId id) const;
  /// The token's own spelling; empty for an unknown id.
  std::string Spelling(TokenId id) const;

  /// The ids of <0x00> to <0xFF> in a vocabulary of text; -1 for those that are not there.
  std::array<TokenId, 256> ByteTokens() const;
  /// The id of the byte-level token with these bytes, or of the text; -1 when there is none.
  TokenId FindBytes(std::string_view bytes) const;
  /// The id of a spelling; -1 when there is none.
  TokenId FindSpelling(std::string_view spelling) const;
  /// FindSpelling that takes a scratch string, for many calls.
  TokenId FindSpelling(std::string_view spelling, std::string* scratch) const;

 private:
  enum Kind : uint8_t { kAbsent, kIndexed, kVerbatim };
  struct Entry {
    uint32_t offset = 0;
    uint32_t size : 30 = 0;
    uint32_t kind : 2 = kAbsent;
  };
  struct Slot {
    uint32_t hash = 0;
    TokenId id = -1;
  };

  void Rehash(size_t slots);
  void Insert(uint64_t hash, TokenId id);

  // Appends what is stored of a spelling, and says which kind it is.
  Kind Store(std::string_view spelling, std::string* out) const;

  Alphabet alphabet_ = Alphabet::kByteLevel;
  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing over the indexed tokens, a power of two
  size_t indexed_count_ = 0;
  size_t count_ = 0;
  std::unordered_map<std::string, TokenId> verbatim_;
};

}  // namespace slipstream::text
