// Reads the model section of a tokenizer.json. The vocabulary and the merges, nearly all of the
// file, are read in place.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/bpe.h"
#include "text/components.h"
#include "text/json_cursor.h"
#include "text/model.h"
#include "text/vocabulary.h"

namespace slipstream::text {

class ModelReader {
 public:
  /// Takes the section from `json`, which stands before it: options as trees, the vocabulary and
  /// the merges unread.
  Status Take(JsonCursor* json);

  /// What the section declares.
  const std::string& type() const { return type_; }
  /// Whether its words can be bytes: BPE without byte fallback and affixes.
  bool CanBeByteLevel() const;

  /// Fills `vocabulary`, whose alphabet is set, and makes the model on it.
  Result<std::unique_ptr<Model>> Build(Vocabulary* vocabulary);

 private:
  const Json* Option(const char* key) const;
  Status Flag(const char* key, bool* value) const;
  Result<std::string> Affix(const char* key) const;
  Result<TokenId> UnknownToken(bool required) const;
  Status ReadVocab(JsonCursor json);
  Status ReadScores(JsonCursor json, std::vector<double>* scores);
  Status ReadMerges(JsonCursor json, size_t prefix_size);
  Status ReadMerge(JsonCursor* json, size_t index, TokenId* left, TokenId* right);
  TokenId FindJoined(TokenId left, TokenId right, size_t prefix_size);
  TokenId Find(std::string_view spelling) { return vocabulary_->FindSpelling(spelling, &scratch_); }
  Result<std::unique_ptr<Model>> BuildBpe();
  Result<std::unique_ptr<Model>> BuildUnigram();
  Result<std::unique_ptr<Model>> BuildWords();

  std::string type_ = "BPE";  // old files do not say
  std::map<std::string, core::JsonTree> options_;
  std::optional<JsonCursor> vocab_;
  std::optional<JsonCursor> merges_text_;
  size_t vocab_bytes_ = 0;
  size_t merges_bytes_ = 0;
  Vocabulary* vocabulary_ = nullptr;
  MergeTable merges_;
  std::string scratch_;
  TokenId last_joined_ = -1;
};

}  // namespace slipstream::text
