// Text to token ids and back. Immutable after loading and safe to use from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/export.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream {

namespace text {
class TokenizerImpl;
class StreamDecoderImpl;
}  // namespace text

struct EncodeOptions {
  bool add_special_tokens = true;  ///< Apply the tokenizer's template (BOS, EOS).
  /// Recognize special tokens that are written out in the text, as Hugging Face does.
  bool parse_special_tokens = true;
};

/// The tokenizer of a model: same ids as Hugging Face `tokenizers` for the same tokenizer.json.
/// Cheap to copy.
///
/// The sections `truncation` and `padding` of the file are not applied, as in transformers, where
/// the caller asks for them: Encode gives the ids of the whole text and nothing else.
///
///     auto tokenizer = Tokenizer::FromJson(bytes_of_tokenizer_json);
///     auto ids = tokenizer->Encode("Hello");        // Result<std::vector<TokenId>>
///     std::string text = tokenizer->Decode(*ids);
class SLIPSTREAM_API Tokenizer {
 public:
  /// Parses a tokenizer.json. Errors: kInvalidArgument naming the JSON field that is wrong or not
  /// supported.
  static Result<Tokenizer> FromJson(std::string_view json);

  /// Ids of `text`. Bytes that are not UTF-8 are kInvalidArgument with their offset.
  Result<std::vector<TokenId>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  /// Text of `ids`; never fails. Ids outside the vocabulary give nothing; invalid bytes become
  /// U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens = true) const;

  /// Number of ids, added tokens included (highest id + 1).
  int32_t vocab_size() const;
  /// The token's own spelling in the vocabulary; empty when out of range.
  std::string IdToToken(TokenId id) const;
  /// -1 when there is no such token.
  TokenId TokenToId(std::string_view token) const;
  bool IsSpecial(TokenId id) const;

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const text::TokenizerImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const text::TokenizerImpl> impl_;
};

/// Turns a growing list of ids into text pieces. Each piece is valid UTF-8: a character split over
/// tokens is held back until it is whole. The pieces joined equal Tokenizer::Decode of all ids. Not
/// thread-safe; one per sequence.
class SLIPSTREAM_API StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  /// The text that became certain with `id`; may be empty.
  std::string Push(TokenId id);
  /// What is still held, at the end of the sequence: U+FFFD for an incomplete character.
  std::string Flush();

 private:
  std::unique_ptr<text::StreamDecoderImpl> impl_;
};

}  // namespace slipstream
