// Reads a tokenizer.json into a TokenizerImpl. The vocabulary and the merges, nearly all of the
// file, are read in place.
#include <algorithm>
#include <map>
#include <string>

#include "text/components.h"
#include "text/json_cursor.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

Status Invalid(const std::string& message) {
  return {StatusCode::kInvalidArgument, "tokenizer.json: " + message};
}

// A rough count of a container's elements, to size tables: `bytes` of JSON at the fewest bytes an
// element takes.
size_t GuessCount(size_t bytes, size_t per_element) {
  return std::min<size_t>(bytes / per_element, size_t{1} << 18);
}

}  // namespace

class TokenizerReader {
 public:
  explicit TokenizerReader(std::string_view json) : text_(json), json_(json) {}

  Result<std::shared_ptr<const TokenizerImpl>> Run() {
    if (const size_t bad = FindInvalidUtf8(text_); bad != std::string_view::npos) {
      return Invalid("byte " + std::to_string(bad) + " is not valid UTF-8");
    }
    if (Status status = ReadSections(); !status.ok()) return status;
    if (Status status = CheckSections(); !status.ok()) return status;
    if (Status status = BuildModel(); !status.ok()) return status;
    if (Status status = AddTokens(); !status.ok()) return status;
    if (Status status = BuildRest(); !status.ok()) return status;
    return std::shared_ptr<const TokenizerImpl>(std::move(out_));
  }

 private:
  // The value of a small section; null when the file does not have it.
  const Json& Section(const std::string& name) const {
    const auto it = sections_.find(name);
    return it == sections_.end() ? null_ : it->second;
  }

  // Reads the next value as a tree.
  bool ReadTree(Json* value) {
    std::string_view raw;
    if (!json_.Skip(&raw)) return false;
    *value = Json::parse(raw, nullptr, /*allow_exceptions=*/false);
    return !value->is_discarded() || json_.Fail("wrong JSON in the value that ends");
  }

  Status JsonError() const { return Invalid(json_.error()); }

  Status ReadSections() {
    if (json_.Peek() != '{') return Invalid("the file is not a JSON object");
    json_.EnterObject();
    std::string_view key_view;
    bool has_model = false;
    while (json_.NextKey(&key_view)) {
      const std::string key(key_view);
      if (key == "model") {
        if (has_model) return Invalid("the section 'model' occurs twice");
        has_model = true;
        if (Status status = ReadModel(); !status.ok()) return status;
        continue;
      }
      if (sections_.contains(key))
        return Invalid("the section '" + key.substr(0, 64) + "' occurs twice");
      if (!ReadTree(&sections_[key])) break;
    }
    if (!json_.ok() || !json_.AtEnd()) return JsonError();
    if (!has_model) return Invalid("there is no section 'model'");
    return Status::Ok();
  }

  Status ReadModel() {
    if (json_.Peek() != '{') return json_.ok() ? Invalid("model must be an object") : JsonError();
    json_.EnterObject();
    std::string_view key_view;
    while (json_.NextKey(&key_view)) {
      const std::string key(key_view);
      if (key == "vocab" && json_.Peek() == '{') {
        if (has_vocab_) return Invalid("model.vocab occurs twice");
        if (Status status = ReadVocab(); !status.ok()) return status;
      } else if (key == "merges" && json_.Peek() == '[' && has_vocab_) {
        if (has_merges_) return Invalid("model.merges occurs twice");
        if (Status status = ReadMerges(&json_); !status.ok()) return status;
      } else if (key == "merges" && json_.Peek() == '[') {
        if (!json_.Skip(&late_merges_))
          break;  // they name tokens of the vocabulary, which comes later
      } else {
        if (!ReadTree(&model_[key])) break;
        if (key == "type") {
          if (Status status = CheckModelType(); !status.ok()) return status;
        }
      }
    }
    return json_.ok() ? Status::Ok() : JsonError();
  }

  Status CheckModelType() const {
    const auto it = model_.find("type");
    if (it == model_.end() || it->second == "BPE") return Status::Ok();  // old files have no type
    return BadValue("model.type", it->second,
                    "supported is BPE (byte-level); Unigram, WordPiece and WordLevel are not");
  }

  Status ReadVocab() {
    has_vocab_ = true;
    out_->model_vocabulary_.Reserve(GuessCount(text_.size(), 60), text_.size() / 8);
    json_.EnterObject();
    std::string_view token;
    while (json_.NextKey(&token)) {
      int64_t id = 0;
      const char first = json_.Peek();
      if (first != '-' && !(first >= '0' && first <= '9')) {
        return Invalid("model.vocab['" + std::string(token.substr(0, 64)) +
                       "'] must be an integer");
      }
      if (!json_.ReadInteger(&id)) break;
      if (Status status = out_->model_vocabulary_.Add(token, id); !status.ok()) {
        return Invalid("model.vocab: " + status.message());
      }
    }
    return json_.ok() ? Status::Ok() : JsonError();
  }

  // Merges are "left right" (older files) or ["left", "right"].
  Status ReadMerges(JsonCursor* json) {
    has_merges_ = true;
    merges_.Reserve(GuessCount(text_.size(), 60));
    json->EnterArray();
    uint32_t rank = 0;
    for (size_t index = 0; json->NextElement(); ++index) {
      TokenId left = -1;
      TokenId right = -1;
      std::string_view text;
      const auto where = [&] { return "model.merges[" + std::to_string(index) + "]"; };
      const auto unknown = [&](std::string_view token) {
        return Invalid(where() + " names '" + std::string(token.substr(0, 64)) +
                       "', which is not in model.vocab");
      };
      if (json->Peek() == '[') {
        json->EnterArray();
        for (TokenId* side : {&left, &right}) {
          if (!json->NextElement() || !json->ReadString(&text)) break;
          *side = Find(text);
          if (*side < 0) return unknown(text);
        }
        if (json->ok() && (right < 0 || json->NextElement()))
          return Invalid(where() + " must hold two strings");
        if (!json->ok()) break;
      } else {
        if (!json->ReadString(&text)) break;
        if (text.starts_with("#version")) continue;
        const size_t space = text.find(' ');
        if (space == std::string_view::npos ||
            text.find(' ', space + 1) != std::string_view::npos) {
          return Invalid(where() + " must be two tokens with one space between them");
        }
        left = Find(text.substr(0, space));
        if (left < 0) return unknown(text.substr(0, space));
        right = Find(text.substr(space + 1));
        if (right < 0) return unknown(text.substr(space + 1));
      }
      const TokenId merged = FindJoined(left, right);
      if (merged < 0) {
        const Vocabulary& vocabulary = out_->model_vocabulary_;
        return unknown(vocabulary.Spelling(left) + vocabulary.Spelling(right));
      }
      merges_.Set(left, right, {rank++, merged});
    }
    return json->ok() ? Status::Ok() : Invalid(json->error());
  }

  TokenId Find(std::string_view spelling) {
    return out_->model_vocabulary_.FindSpelling(spelling, &scratch_);
  }

  // The token whose spelling is that of `left` and then `right`.
  TokenId FindJoined(TokenId left, TokenId right) {
    const Vocabulary& vocabulary = out_->model_vocabulary_;
    if (vocabulary.IsByteLevel(left) && vocabulary.IsByteLevel(right)) {
      scratch_.assign(vocabulary.Bytes(left));
      scratch_.append(vocabulary.Bytes(right));
      return vocabulary.FindBytes(scratch_);
    }
    return vocabulary.FindSpelling(vocabulary.Spelling(left) + vocabulary.Spelling(right));
  }

  Status CheckSections() const {
    const Json& version = Section("version");
    if (!version.is_null() && version != "1.0")
      return BadValue("version", version, "supported is \"1.0\"");
    for (const char* name : {"truncation", "padding"}) {
      if (!Section(name).is_null()) {
        return BadValue(
            name, Section(name),
            "it must be null: a serving engine neither cuts nor pads a prompt by itself");
      }
    }
    if (Status status = CheckModelType(); !status.ok()) return status;
    if (!has_vocab_) return Invalid("model.vocab must be an object of tokens and ids");
    if (!has_merges_ && late_merges_.empty()) return Invalid("model.merges must be an array");
    if (Status status = CheckNormalizer(Section("normalizer")); !status.ok()) return status;
    return CheckDecoder(Section("decoder"));
  }

  const Json* ModelOption(const char* key) const {
    const auto it = model_.find(key);
    return it == model_.end() || it->second.is_null() ? nullptr : &it->second;
  }

  Status ModelFlag(const char* key, bool* value) const {
    const Json* option = ModelOption(key);
    *value = false;
    if (option == nullptr) return Status::Ok();
    if (!option->is_boolean())
      return BadValue(std::string("model.") + key, *option, "it must be true or false");
    *value = option->get<bool>();
    return Status::Ok();
  }

  Status BuildModel() {
    if (!has_merges_) {
      JsonCursor late(late_merges_);
      if (Status status = ReadMerges(&late); !status.ok()) return status;
    }
    if (const Json* dropout = ModelOption("dropout"); dropout != nullptr && *dropout != 0) {
      return BadValue("model.dropout", *dropout, "it must be null or 0: dropout makes ids random");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* option = ModelOption(key);
      if (option != nullptr && *option != "") {
        return BadValue(std::string("model.") + key, *option,
                        "it must be null or empty in a byte-level tokenizer");
      }
    }
    bool byte_fallback = false;
    bool ignore_merges = false;
    UnknownRule unknown;
    if (Status status = ModelFlag("byte_fallback", &byte_fallback); !status.ok()) return status;
    if (Status status = ModelFlag("ignore_merges", &ignore_merges); !status.ok()) return status;
    if (Status status = ModelFlag("fuse_unk", &unknown.fuse); !status.ok()) return status;
    if (byte_fallback) {
      return BadValue("model.byte_fallback", true,
                      "it must be false: a byte-level vocabulary has every byte itself");
    }
    if (const Json* unk = ModelOption("unk_token"); unk != nullptr) {
      unknown.unk_id = unk->is_string() ? Find(unk->get<std::string>()) : -1;
      if (unknown.unk_id < 0)
        return BadValue("model.unk_token", *unk, "it must be null or a token of model.vocab");
    }
    out_->model_ = std::make_unique<BpeModel>(out_->model_vocabulary_, std::move(merges_), unknown,
                                              ignore_merges);
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
        return Invalid("added_tokens: '" + token.content.substr(0, 64) + "' declares id " +
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
    std::vector<AddedToken> first;
    std::vector<AddedToken> second;
    for (auto& [content, token] : tokens) {
      token.special = out_->special_[token.id];
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
      return Invalid("added_tokens: '" + token.content.substr(0, 64) + "' has id " +
                     std::to_string(token.id) + ", which model.vocab gives to '" +
                     out_->model_vocabulary_.Spelling(token.id) + "'");
    }
    const Status status = out_->added_vocabulary_.Add(token.content, token.id);
    return status.ok() ? status : Invalid("added_tokens: " + status.message());
  }

  Status BuildRest() {
    Result<PreTokenizer> pre_tokenizer = ReadPreTokenizer(Section("pre_tokenizer"));
    if (!pre_tokenizer.ok()) return pre_tokenizer.status();
    out_->pre_tokenizer_ = std::move(*pre_tokenizer);
    Result<std::vector<TokenId>> ids = ReadPostProcessor(Section("post_processor"));
    if (!ids.ok()) return ids.status();
    for (const TokenId id : *ids) {
      if (id >= 0 && !out_->model_vocabulary_.Contains(id) &&
          !out_->added_vocabulary_.Contains(id)) {
        return Invalid("post_processor inserts id " + std::to_string(id) + ", which no token has");
      }
    }
    out_->template_ = std::move(*ids);
    return Status::Ok();
  }

  std::string_view text_;
  JsonCursor json_;
  std::map<std::string, Json> sections_;
  const Json null_;
  std::map<std::string, Json> model_;  // options of the model, without vocab and merges
  std::string_view late_merges_;
  bool has_vocab_ = false;
  bool has_merges_ = false;
  MergeTable merges_;
  std::string scratch_;
  std::shared_ptr<TokenizerImpl> out_ = std::make_shared<TokenizerImpl>();
};

Result<std::shared_ptr<const TokenizerImpl>> TokenizerImpl::FromJson(std::string_view json) {
  return TokenizerReader(json).Run();
}

}  // namespace slipstream::text
