#include <new>
#include <string>

#include "core/resource_exhausted.h"
#include "slipstream/text.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace slipstream::text {

namespace {

Status TooHard(size_t bytes) {
  return {StatusCode::kLimitExceeded,
          "the tokenizer's split pattern needs too many steps on this text of " +
              std::to_string(bytes) + " bytes; split the text"};
}

}  // namespace

Status TokenizerImpl::EncodePlain(Piece piece, std::vector<TokenId>* ids) const {
  const FindResult result = pre_tokenizer_.Run(piece, [&](std::string_view word) {
    return model_->Encode(word, ids) ? FindResult::kFound : FindResult::kStopped;
  });
  if (result == FindResult::kTooHard) return TooHard(piece.text.size());
  if (result == FindResult::kStopped) {
    return {StatusCode::kInvalidArgument,
            "the text has characters that the tokenizer's vocabulary does not have, and the model "
            "in tokenizer.json names no token for unknown text"};
  }
  return Status::Ok();
}

// A piece between the added tokens that are looked for in the text itself.
Status TokenizerImpl::EncodePiece(Piece piece, bool parse_special,
                                  std::vector<TokenId>* ids) const {
  std::string normalized;
  if (!normalizer_.empty()) {
    normalized = piece.text;
    const FindResult result = normalizer_.Run(&normalized, &piece.front_cut);
    if (result == FindResult::kTooHard) return TooHard(piece.text.size());
    piece.text = normalized;
  }
  std::vector<TextPiece> parts;
  second_tokens_.Split(piece.text, parse_special, &parts);
  for (const TextPiece& part : parts) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    const bool first = piece.first && part.text.data() == piece.text.data();
    if (Status status = EncodePlain({part.text, first, piece.front_cut}, ids); !status.ok())
      return status;
  }
  return Status::Ok();
}

Status TokenizerImpl::Encode(std::string_view text, const EncodeOptions& options,
                             std::vector<TokenId>* ids) const {
  std::vector<TextPiece> pieces;
  first_tokens_.Split(text, options.parse_special_tokens, &pieces);
  for (const TextPiece& piece : pieces) {
    if (piece.id >= 0) {
      ids->push_back(piece.id);
      continue;
    }
    const Piece plain = {piece.text, piece.text.data() == text.data()};
    if (Status status = EncodePiece(plain, options.parse_special_tokens, ids); !status.ok())
      return status;
  }
  const bool plain_template = template_.size() == 1 && template_[0] < 0;
  if (plain_template) return Status::Ok();
  std::vector<TokenId> whole;
  whole.reserve(ids->size() + template_.size());
  for (const TokenId id : template_) {
    if (id < 0) {
      whole.insert(whole.end(), ids->begin(), ids->end());
    } else if (options.add_special_tokens) {
      whole.push_back(id);
    }
  }
  *ids = std::move(whole);
  return Status::Ok();
}

TokenId TokenizerImpl::Find(std::string_view spelling) const {
  const TokenId id = model_vocabulary_.FindSpelling(spelling);
  return id >= 0 ? id : added_vocabulary_.FindSpelling(spelling);
}

// Decoding is the same machine, whether the ids come at once or one by one.
class StreamDecoderImpl {
 public:
  StreamDecoderImpl(std::shared_ptr<const TokenizerImpl> tokenizer, bool skip_special_tokens)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {
    if (!tokenizer_->decodes_bytes()) chain_.emplace(tokenizer_->decoder());
  }

  void Push(TokenId id, std::string* out) {
    if (const TokenizerImpl::Respelled* token = tokenizer_->FindRespelled(id)) {
      if (skip_special_tokens_ && token->special) return;
      return PushSpelling(token->spelling, token->bytes, out);
    }
    if (skip_special_tokens_ && tokenizer_->IsSpecial(id)) return;
    const std::string_view bytes = tokenizer_->Bytes(id);
    if (!chain_ || tokenizer_->Contains(id)) PushSpelling(bytes, bytes, out);
  }
  void Flush(std::string* out) {
    if (!chain_) {
      utf8_.Flush(out);
    } else {
      chain_->Finish(out);
      chain_.emplace(tokenizer_->decoder());  // a new text may begin
    }
  }

 private:
  void PushSpelling(std::string_view spelling, std::string_view bytes, std::string* out) {
    if (chain_) {
      chain_->Push(spelling, out);
    } else {
      utf8_.Push(bytes, out);
    }
  }

  std::shared_ptr<const TokenizerImpl> tokenizer_;
  bool skip_special_tokens_;
  LossyUtf8Decoder utf8_;             // of a byte-level vocabulary
  std::optional<DecodeChain> chain_;  // of any other
};

}  // namespace slipstream::text

namespace slipstream {

Result<Tokenizer> Tokenizer::FromJson(std::string_view json) {
  try {
    Result<std::shared_ptr<const text::TokenizerImpl>> impl = text::TokenizerImpl::FromJson(json);
    if (!impl.ok()) return impl.status();
    return Tokenizer(std::move(*impl));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("not enough memory to load a tokenizer.json of ",
                                   std::to_string(json.size()), " bytes");
  }
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  try {
    if (const size_t bad = text::FindInvalidUtf8(text); bad != std::string_view::npos) {
      return Status(StatusCode::kInvalidArgument, "the text is not valid UTF-8 at byte " +
                                                      std::to_string(bad) +
                                                      "; decode it before encoding");
    }
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 8);
    if (Status status = impl_->Encode(text, options, &ids); !status.ok()) return status;
    return ids;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("not enough memory to encode a text of ",
                                   std::to_string(text.size()), " bytes");
  }
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  text::StreamDecoderImpl decoder(impl_, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) decoder.Push(id, &text);
  decoder.Flush(&text);
  return text;
}

int32_t Tokenizer::vocab_size() const { return impl_->vocab_size(); }
std::string Tokenizer::IdToToken(TokenId id) const { return impl_->Spelling(id); }
TokenId Tokenizer::TokenToId(std::string_view token) const {
  return text::FindInvalidUtf8(token) == std::string_view::npos ? impl_->Find(token) : -1;
}
bool Tokenizer::IsSpecial(TokenId id) const { return impl_->IsSpecial(id); }

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : impl_(std::make_unique<text::StreamDecoderImpl>(tokenizer.impl_, skip_special_tokens)) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::Push(TokenId id) {
  std::string piece;
  impl_->Push(id, &piece);
  return piece;
}

std::string StreamDecoder::Flush() {
  std::string piece;
  impl_->Flush(&piece);
  return piece;
}

}  // namespace slipstream
