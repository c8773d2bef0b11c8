// Byte-pair encoding of one word: the greedy merge loop over ranked pairs, identical to Hugging
// Face's BPE model.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/status.h"
#include "slipstream/types.h"
#include "text/model.h"
#include "text/vocabulary.h"

namespace slipstream::text {

/// Pair of ids -> rank and the id of the merged token. Open addressing, immutable after building.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId id;
  };

  /// Calls visit(left, right) for every pair.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kEmpty)
        visit(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFFu));
    }
  }

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

struct BpeOptions {
  bool bytes = true;           ///< symbols are bytes of a byte-level vocabulary, else characters
  TokenId unk_id = -1;         ///< for symbols without a token; -1: they are dropped
  bool fuse_unk = false;       ///< neighbouring unknown symbols give one token
  bool byte_fallback = false;  ///< first, though, the tokens <0x00> to <0xFF> stand in for them
  bool ignore_merges = false;  ///< a word that is a token needs no merging
  std::string prefix;          ///< continuing_subword_prefix: of every character but the first
  std::string suffix;          ///< end_of_word_suffix: of the last character
};

/// Encodes words. Thread-safe: the only other thing that changes is a memo of facts about tokens,
/// which every thread computes alike.
class BpeModel final : public Model {
 public:
  /// `vocabulary` must be complete and outlive the model.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options);

  /// Appends the ids of `word`: any bytes when symbols are bytes, else valid UTF-8. Always true.
  bool Encode(std::string_view word, std::vector<TokenId>* ids) const override;

 private:
  // What is known of a token: does merging its own bytes give just this token? Then a word that
  // spells it needs no merging. Found on first use; relaxed atomics suffice, because the answer is
  // a function of the immutable tables.
  enum Whole : uint8_t { kUnknown = 0, kYes = 1, kNo = 2 };

  bool EncodeWord(std::string_view word, std::vector<TokenId>* ids) const override;
  bool CanCutAtMarks();
  void Symbols(std::string_view word, std::vector<TokenId>* symbols) const;
  void CharSymbols(std::string_view word, std::vector<TokenId>* symbols) const;
  void Merge(std::string_view word, std::vector<TokenId>* ids) const;
  void MergeShort(size_t first, std::vector<TokenId>* ids) const;
  void MergeLong(size_t first, std::vector<TokenId>* ids) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;   // of the single bytes, or of <0x00> to <0xFF>
  std::array<TokenId, 128> ascii_ids_;  // of one-byte characters, when symbols are characters
  bool cut_at_marks_ = false;           // words can be cut in front of runs of U+2581,
  std::array<bool, 256> joins_mark_{};  // but not behind these bytes: merges reach over
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace slipstream::text
