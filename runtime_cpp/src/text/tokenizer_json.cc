// Reads a tokenizer.json into a TokenizerImpl.
#include <algorithm>
#include <map>
#include <string>

#include "core/excerpt.h"
#include "text/byte_alphabet.h"
#include "text/components.h"
#include "text/json_cursor.h"
#include "text/model_reader.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

Status Invalid(const std::string& message) {
  return {StatusCode::kInvalidArgument, "tokenizer.json: " + message};
}

}  // namespace

class TokenizerReader {
 public:
  explicit TokenizerReader(std::string_view json) : text_(json), json_(json) {}

  Result<std::shared_ptr<const TokenizerImpl>> Run() {
    if (const size_t bad = FindInvalidUtf8(text_); bad != std::string_view::npos) {
      return Invalid("byte " + std::to_string(bad) + " is not valid UTF-8; save the file as UTF-8");
    }
    if (Status status = ReadSections(); !status.ok()) return status;
    if (Status status = CheckSections(); !status.ok()) return status;
    if (Status status = BuildParts(); !status.ok()) return status;
    if (Status status = AddTokens(); !status.ok()) return status;
    if (Status status = ReadTemplate(); !status.ok()) return status;
    return std::shared_ptr<const TokenizerImpl>(std::move(out_));
  }

 private:
  // The value of a small section; null when the file does not have it.
  const Json& Section(const std::string& name) const {
    const auto it = sections_.find(name);
    return it == sections_.end() ? null_ : it->second;
  }

  // Reads the next value as a tree.
  bool ReadTree(core::JsonTree* value) {
    std::string_view raw;
    return json_.Skip(&raw) && (ParseTree(raw, value) || json_.Fail(kWrongTree));
  }

  Status JsonError() const { return Invalid(json_.error()); }

  Status ReadSections() {
    if (json_.Peek() != '{') return Invalid("it must be a JSON object");
    json_.EnterObject();
    std::string_view key_view;
    bool has_model = false;
    while (json_.NextKey(&key_view)) {
      const std::string key(key_view);
      if (key == "model") {
        if (has_model) return Invalid("the section 'model' occurs twice; keep one of them");
        has_model = true;
        if (Status status = model_.Take(&json_); !status.ok()) return status;
        continue;
      }
      if (sections_.contains(key))
        return Invalid("the section '" + core::Excerpt(key) + "' occurs twice; keep one of them");
      if (!ReadTree(&sections_[key])) break;
    }
    if (!json_.ok() || !json_.AtEnd()) return JsonError();
    if (!has_model) return Invalid("there is no section 'model', which holds the vocabulary");
    return Status::Ok();
  }

  TokenId Find(std::string_view spelling) const {
    return out_->model_vocabulary_.FindSpelling(spelling);
  }

  Status CheckSections() const {
    const Json& version = Section("version");
    if (!version.is_null() && !Is(version, "1.0"))
      return BadValue("version", version, "supported is \"1.0\"");
    return Status::Ok();
  }

  Status BuildParts() {
    const bool bytes =
        model_.CanBeByteLevel() && IsByteLevel(Section("pre_tokenizer"), Section("decoder"));
    const auto alphabet = bytes ? Vocabulary::Alphabet::kByteLevel : Vocabulary::Alphabet::kText;
    out_->model_vocabulary_.SetAlphabet(alphabet);
    out_->added_vocabulary_.SetAlphabet(alphabet);
    Result<std::unique_ptr<Model>> model = model_.Build(&out_->model_vocabulary_);
    if (!model.ok()) return model.status();
    out_->model_ = std::move(*model);
    Result<Normalizer> normalizer = ReadNormalizer(Section("normalizer"));
    if (!normalizer.ok()) return normalizer.status();
    out_->normalizer_ = std::move(*normalizer);
    Result<PreTokenizer> pre_tokenizer =
        ReadPreTokenizer(Section("pre_tokenizer"), /*spell_bytes=*/!bytes);
    if (!pre_tokenizer.ok()) return pre_tokenizer.status();
    out_->pre_tokenizer_ = std::move(*pre_tokenizer);
    Result<std::vector<DecoderStage>> decoder = ReadDecoder(Section("decoder"));
    if (!decoder.ok()) return decoder.status();
    out_->decoder_ = std::move(*decoder);
    return Status::Ok();
  }

  // Ids of added tokens: that of the model's token with the same spelling, else the next free one,
  // counted from the size of the vocabulary. Hugging Face assigns so, whatever the file declares; a
  // file that declares otherwise is refused.
  Status AddTokens() {
    Result<std::vector<AddedToken>> read = ReadAddedTokens(Section("added_tokens"));
    if (!read.ok()) return read.status();
    auto next = static_cast<int64_t>(out_->model_vocabulary_.count());
    std::map<std::string, AddedToken> tokens;  // of equal contents the last one counts
    std::vector<TokenId> special;              // a content that was special once stays special
    for (AddedToken& token : *read) {
      int64_t id = Find(token.content);
      const auto same = tokens.find(token.content);
      if (id < 0) id = same != tokens.end() ? same->second.id : next++;
      if (token.id != id) {
        return Invalid("added_tokens: '" + core::Excerpt(token.content) + "' declares id " +
                       std::to_string(token.id) + ", but its place gives it id " +
                       std::to_string(id) +
                       "; list added tokens in the order of their ids, without gaps, from the size "
                       "of the vocabulary");
      }
      if (Status status = AddToken(token, same != tokens.end()); !status.ok()) return status;
      if (token.special) special.push_back(token.id);
      tokens.insert_or_assign(token.content, std::move(token));
    }
    out_->special_.assign(out_->vocab_size(), false);
    for (const TokenId id : special) out_->special_[id] = true;
    std::vector<std::string> special_contents;
    for (const auto& [content, token] : tokens) {
      if (out_->special_[token.id]) special_contents.push_back(content);
    }
    std::vector<AddedToken> first;
    std::vector<AddedToken> second;
    for (auto& [content, token] : tokens) {
      token.special = out_->special_[token.id];
      const bool normalized = token.normalized && !out_->normalizer_.empty();
      if (normalized && out_->normalizer_.Run(&token.pattern) == FindResult::kTooHard)
        return Invalid("normalizer needs too many steps on the added token '" +
                       core::Excerpt(content) + "'; simplify the pattern of its Replace");
      if (token.pattern != content) {
        TokenizerImpl::Respelled respelled{token.pattern, {}, false};
        if (!AppendSpelledBytes(token.pattern, &respelled.bytes)) respelled.bytes = token.pattern;
        respelled.special = std::find(special_contents.begin(), special_contents.end(),
                                      token.pattern) != special_contents.end();
        out_->respelled_.insert_or_assign(token.id, std::move(respelled));
      }
      (token.normalized ? second : first).push_back(std::move(token));
    }
    out_->first_tokens_ = AddedTokenMatcher(std::move(first));
    out_->second_tokens_ = AddedTokenMatcher(std::move(second));
    return Status::Ok();
  }

  Status AddToken(const AddedToken& token, bool known) {
    const bool in_model = Find(token.content) >= 0;
    if (in_model || known) return Status::Ok();
    if (out_->model_vocabulary_.Contains(token.id)) {
      return Invalid("added_tokens: '" + core::Excerpt(token.content) + "' has id " +
                     std::to_string(token.id) + ", which model.vocab gives to '" +
                     core::Excerpt(out_->model_vocabulary_.Spelling(token.id)) +
                     "'; give one of them another id");
    }
    const Status status = out_->added_vocabulary_.Add(token.content, token.id);
    return status.ok() ? status : Invalid("added_tokens: " + status.message());
  }

  Status ReadTemplate() {
    Result<IdTemplate> ids = ReadPostProcessor(Section("post_processor"));
    if (!ids.ok()) return ids.status();
    for (const TokenId id : *ids) {
      if (id >= 0 && !out_->model_vocabulary_.Contains(id) &&
          !out_->added_vocabulary_.Contains(id)) {
        return Invalid("post_processor inserts id " + std::to_string(id) +
                       ", which no token has; add the token to added_tokens");
      }
    }
    out_->template_ = std::move(*ids);
    return Status::Ok();
  }

  std::string_view text_;
  JsonCursor json_;
  std::map<std::string, core::JsonTree> sections_;
  const Json null_;
  ModelReader model_;
  std::shared_ptr<TokenizerImpl> out_ = std::make_shared<TokenizerImpl>();
};

Result<std::shared_ptr<const TokenizerImpl>> TokenizerImpl::FromJson(std::string_view json) {
  return TokenizerReader(json).Run();
}

}  // namespace slipstream::text
