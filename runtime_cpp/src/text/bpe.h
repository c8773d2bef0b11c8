// Byte-pair encoding of one word: the greedy merge loop over ranked pairs, identical to Hugging
// Face's BPE model.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "slipstream/status.h"
#include "slipstream/types.h"
#include "text/vocabulary.h"

namespace slipstream::text {

/// Pair of ids -> rank and the id of the merged token. Open addressing, immutable after building.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId id;
  };

  void Reserve(size_t merges);
  /// A pair that is already there gets the new rank, as in Hugging Face.
  void Set(TokenId left, TokenId right, Merge merge);
  /// nullptr when the pair does not merge.
  const Merge* Find(TokenId left, TokenId right) const {
    const uint64_t key = Key(left, right);
    for (size_t slot = Home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty =
      ~uint64_t{0};  // ids are never negative, so no pair has this key
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };

  static uint64_t Key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t Home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t mask_ = 1;
  int shift_ = 63;
  size_t count_ = 0;
};

/// How bytes without a token of their own are treated.
struct UnknownRule {
  TokenId unk_id = -1;  ///< -1: such bytes are dropped
  bool fuse = false;    ///< neighbouring unknown bytes give one token
};

/// Encodes words. Thread-safe: the only thing that changes is a memo of facts about tokens, which
/// every thread computes alike.
class BpeModel {
 public:
  /// `vocabulary` must be complete and outlive the model.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, UnknownRule unknown,
           bool ignore_merges);

  /// Appends the ids of `word` (any bytes).
  void Encode(std::string_view word, std::vector<TokenId>* ids) const;

 private:
  // What is known of a token: does merging its own bytes give just this token? Then a word that
  // spells it needs no merging. Found on first use; relaxed atomics suffice, because the answer is
  // a function of the immutable tables.
  enum Whole : uint8_t { kUnknown = 0, kYes = 1, kNo = 2 };

  void Symbols(std::string_view word, std::vector<TokenId>* symbols) const;
  void Merge(std::string_view word, std::vector<TokenId>* ids) const;
  void MergeShort(size_t first, std::vector<TokenId>* ids) const;
  void MergeLong(size_t first, std::vector<TokenId>* ids) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  UnknownRule unknown_;
  bool ignore_merges_;
  std::array<TokenId, 256> byte_ids_;
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace slipstream::text
