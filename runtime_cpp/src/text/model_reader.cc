#include "text/model_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/excerpt.h"
#include "text/unigram.h"
#include "text/word_piece.h"

namespace slipstream::text {
namespace {

Status Invalid(const std::string& message) {
  return {StatusCode::kInvalidArgument, "tokenizer.json: " + message};
}

constexpr const char* kNotInVocab = "', which is not in model.vocab; add it or remove the merge";

std::string NameOfMerge(size_t index) { return "model.merges[" + std::to_string(index) + "]"; }

// A rough count of a container's elements, to size tables: `bytes` of JSON at the fewest bytes an
// element takes.
size_t GuessCount(size_t bytes) { return std::min<size_t>(bytes / 24, size_t{1} << 18); }

// A JSON number as Hugging Face reads it: the digits as an integer, as many as fit 64 bits, times
// or divided by a power of ten. The last bit may differ from the nearest double, and equal sums of
// scores hang on it.
double ScoreOf(std::string_view number) {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool fraction = false;
  bool full = false;
  size_t i = number.starts_with('-') ? 1 : 0;
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(number[i] - '0');
    full = full || digits > (~uint64_t{0} - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    if (fraction && !full) --exponent;
    if (!fraction && full) ++exponent;
  }
  if (i < number.size()) {
    const bool negative = number.substr(i + 1).starts_with('-');
    int64_t power = 0;
    for (const char c : number.substr(i + 1)) {
      if (c >= '0' && c <= '9') power = std::min<int64_t>(power * 10 + (c - '0'), 100000);
    }
    exponent += negative ? -power : power;
  }
  auto value = static_cast<double>(digits);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  const double power =
      std::pow(10.0, static_cast<double>(std::min<int64_t>(std::abs(exponent), 308)));
  value = exponent < 0 ? value / power : value * power;
  return number.starts_with('-') ? -value : value;
}

}  // namespace

Status ModelReader::Take(JsonCursor* json) {
  if (json->Peek() != '{') return Invalid(json->ok() ? "model must be an object" : json->error());
  json->EnterObject();
  std::string_view key_view;
  while (json->NextKey(&key_view)) {
    const std::string key(key_view);
    std::optional<JsonCursor>* const large = key == "vocab"    ? &vocab_
                                             : key == "merges" ? &merges_text_
                                                               : nullptr;
    if (large != nullptr && large->has_value())
      return Invalid("model." + key + " occurs twice; keep one of them");
    const JsonCursor before = *json;
    std::string_view raw;
    if (!json->Skip(&raw)) break;
    if (large != nullptr) {
      *large = before;
      (key == "vocab" ? vocab_bytes_ : merges_bytes_) = raw.size();
      continue;
    }
    if (!ParseTree(raw, &options_[key])) {
      json->Fail(kWrongTree);
      break;
    }
  }
  if (!json->ok()) return Invalid(json->error());
  if (const Json* type = Option("type"); type != nullptr) {
    constexpr std::string_view kTypes[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    const bool known = type->is_string() && std::find(std::begin(kTypes), std::end(kTypes),
                                                      type->get<std::string>()) != std::end(kTypes);
    if (!known)
      return BadValue("model.type", *type, "supported are BPE, Unigram, WordPiece and WordLevel");
    type_ = type->get<std::string>();
  }
  return Status::Ok();
}

const Json* ModelReader::Option(const char* key) const {
  const auto it = options_.find(key);
  return it == options_.end() || it->second.is_null() ? nullptr : &it->second;
}

Status ModelReader::Flag(const char* key, bool* value) const {
  const Json* option = Option(key);
  *value = false;
  if (option == nullptr) return Status::Ok();
  if (!option->is_boolean())
    return BadValue(std::string("model.") + key, *option, "it must be true or false");
  *value = option->get<bool>();
  return Status::Ok();
}

Result<std::string> ModelReader::Affix(const char* key) const {
  const Json* option = Option(key);
  if (option == nullptr) return std::string();
  if (!option->is_string())
    return BadValue(std::string("model.") + key, *option, "it must be null or a string");
  return option->get<std::string>();
}

bool ModelReader::CanBeByteLevel() const {
  const auto empty = [&](const char* key) {
    return Option(key) == nullptr || Is(*Option(key), "");
  };
  const Json* fallback = Option("byte_fallback");
  return type_ == "BPE" && empty("continuing_subword_prefix") && empty("end_of_word_suffix") &&
         (fallback == nullptr || *fallback == false);
}

Result<TokenId> ModelReader::UnknownToken(bool required) const {
  const Json* unk = Option("unk_token");
  if (unk == nullptr) return TokenId{-1};
  if (!unk->is_string()) return BadValue("model.unk_token", *unk, "it must be null or a string");
  const TokenId id = vocabulary_->FindSpelling(unk->get<std::string>());
  if (id < 0 && required)
    return BadValue("model.unk_token", *unk, "it must be null or a token of model.vocab");
  return id;
}

Status ModelReader::ReadVocab(JsonCursor json) {
  if (json.Peek() != '{') return Invalid("model.vocab must be an object of tokens and ids");
  vocabulary_->Reserve(GuessCount(vocab_bytes_), vocab_bytes_ / 2);
  json.EnterObject();
  std::string_view token;
  while (json.NextKey(&token)) {
    int64_t id = 0;
    const char first = json.Peek();
    if (first != '-' && !(first >= '0' && first <= '9'))
      return Invalid("model.vocab['" + core::Excerpt(token) + "'] must be an integer");
    if (!json.ReadInteger(&id)) break;
    if (Status status = vocabulary_->Add(token, id); !status.ok())
      return Invalid("model.vocab: " + status.message());
  }
  return json.ok() ? Status::Ok() : Invalid(json.error());
}

// Unigram: an array of [token, score]; ids are the places.
Status ModelReader::ReadScores(JsonCursor json, std::vector<double>* scores) {
  if (json.Peek() != '[') return Invalid("model.vocab must be an array of tokens and scores");
  vocabulary_->Reserve(GuessCount(vocab_bytes_), vocab_bytes_ / 2);
  json.EnterArray();
  while (json.NextElement()) {
    const auto id = static_cast<int64_t>(scores->size());
    const std::string where = "model.vocab[" + std::to_string(id) + "]";
    std::string_view token;
    std::string_view number;
    if (json.Peek() != '[') return Invalid(where + " must be a token and its score");
    json.EnterArray();
    if (!json.NextElement() || !json.ReadString(&token)) {
      return Invalid(json.ok() ? where + " must be a token and its score" : json.error());
    }
    if (Status status = vocabulary_->Add(token, id); !status.ok())
      return Invalid("model.vocab: " + status.message());
    if (!json.NextElement() || !json.Skip(&number)) {
      return Invalid(json.ok() ? where + " must be a token and its score" : json.error());
    }
    const Json score = Json::parse(number, nullptr, /*allow_exceptions=*/false);
    if (!score.is_number() || !std::isfinite(score.get<double>()))
      return Invalid(where + ": the score must be a finite number");
    if (json.NextElement()) return Invalid(where + " must be a token and its score");
    scores->push_back(ScoreOf(number));
  }
  return json.ok() ? Status::Ok() : Invalid(json.error());
}

// Merges are "left right" (older files) or ["left", "right"].
Status ModelReader::ReadMerge(JsonCursor* json, size_t index, TokenId* left, TokenId* right) {
  std::string_view text;
  // There are hundreds of thousands of merges: words about one are put together in errors only.
  const auto wrong = [&](const char* what) { return Invalid(NameOfMerge(index) + what); };
  const auto unknown = [&](std::string_view token) {
    return Invalid(NameOfMerge(index) + " names '" + core::Excerpt(token) + kNotInVocab);
  };
  if (json->Peek() == '[') {
    json->EnterArray();
    for (TokenId* side : {left, right}) {
      if (!json->NextElement() || !json->ReadString(&text)) break;
      *side = Find(text);
      if (*side < 0) return unknown(text);
    }
    if (json->ok() && (*right < 0 || json->NextElement())) return wrong(" must hold two strings");
    return json->ok() ? Status::Ok() : Invalid(json->error());
  }
  if (!json->ReadString(&text)) return Invalid(json->error());
  if (text.starts_with("#version")) return Status::Ok();
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    return wrong(" must be two tokens with one space between them");
  *left = Find(text.substr(0, space));
  if (*left < 0) return unknown(text.substr(0, space));
  *right = Find(text.substr(space + 1));
  return *right < 0 ? unknown(text.substr(space + 1)) : Status::Ok();
}

Status ModelReader::ReadMerges(JsonCursor json, size_t prefix_size) {
  if (json.Peek() != '[') return Invalid("model.merges must be an array");
  merges_.Reserve(std::max(vocabulary_->count(), GuessCount(merges_bytes_)));
  json.EnterArray();
  uint32_t rank = 0;
  for (size_t index = 0; json.NextElement(); ++index) {
    TokenId left = -1;
    TokenId right = -1;
    if (Status status = ReadMerge(&json, index, &left, &right); !status.ok()) return status;
    if (left < 0) continue;  // the line of the version
    const TokenId merged = FindJoined(left, right, prefix_size);
    if (merged < 0) {
      const std::string token =
          vocabulary_->Spelling(left) + vocabulary_->Spelling(right).substr(std::min(
                                            prefix_size, vocabulary_->Bytes(right).size()));
      return Invalid(NameOfMerge(index) + " makes '" + core::Excerpt(token) + kNotInVocab);
    }
    merges_.Set(left, right, {rank++, merged});
  }
  return json.ok() ? Status::Ok() : Invalid(json.error());
}

// The token whose spelling is that of `left` and then `right` without its prefix.
TokenId ModelReader::FindJoined(TokenId left, TokenId right, size_t prefix_size) {
  if (vocabulary_->IsIndexed(left) && vocabulary_->IsIndexed(right)) {
    const std::string_view tail = vocabulary_->Bytes(right);
    scratch_.assign(vocabulary_->Bytes(left));
    scratch_.append(tail.substr(std::min(prefix_size, tail.size())));
    // Mostly the tokens come in the order of their merges, of which a token may have several.
    for (const TokenId id : {last_joined_, last_joined_ + 1}) {
      const bool same = vocabulary_->Contains(id) && vocabulary_->IsIndexed(id) &&
                        vocabulary_->Bytes(id) == scratch_;
      if (same) return last_joined_ = id;
    }
    const TokenId found = vocabulary_->FindBytes(scratch_);
    if (found >= 0) last_joined_ = found;
    return found;
  }
  return vocabulary_->FindSpelling(vocabulary_->Spelling(left) + vocabulary_->Spelling(right));
}

Result<std::unique_ptr<Model>> ModelReader::Build(Vocabulary* vocabulary) {
  vocabulary_ = vocabulary;
  if (!vocab_) return Invalid("there is no model.vocab, which gives the tokens their ids");
  if (type_ == "Unigram") return BuildUnigram();
  if (Status status = ReadVocab(*vocab_); !status.ok()) return status;
  return type_ == "BPE" ? BuildBpe() : BuildWords();
}

Result<std::unique_ptr<Model>> ModelReader::BuildBpe() {
  if (!merges_text_) return Invalid("model.merges must be an array");
  BpeOptions options;
  options.bytes = vocabulary_->alphabet() == Vocabulary::Alphabet::kByteLevel;
  Result<std::string> prefix = Affix("continuing_subword_prefix");
  if (!prefix.ok()) return prefix.status();
  Result<std::string> suffix = Affix("end_of_word_suffix");
  if (!suffix.ok()) return suffix.status();
  options.prefix = std::move(*prefix);
  options.suffix = std::move(*suffix);
  if (Status status = ReadMerges(*merges_text_, options.prefix.size()); !status.ok()) return status;
  if (const Json* dropout = Option("dropout"); dropout != nullptr && *dropout != 0)
    return BadValue("model.dropout", *dropout, "it must be null or 0: dropout makes ids random");
  const std::pair<const char*, bool*> flags[] = {{"byte_fallback", &options.byte_fallback},
                                                 {"ignore_merges", &options.ignore_merges},
                                                 {"fuse_unk", &options.fuse_unk}};
  for (const auto& [key, flag] : flags) {
    if (Status status = Flag(key, flag); !status.ok()) return status;
  }
  const Result<TokenId> unk = UnknownToken(/*required=*/true);
  if (!unk.ok()) return unk.status();
  options.unk_id = *unk;
  return std::unique_ptr<Model>(
      std::make_unique<BpeModel>(*vocabulary_, std::move(merges_), std::move(options)));
}

Result<std::unique_ptr<Model>> ModelReader::BuildUnigram() {
  std::vector<double> scores;
  if (Status status = ReadScores(*vocab_, &scores); !status.ok()) return status;
  TokenId unk_id = -1;
  if (const Json* unk = Option("unk_id"); unk != nullptr) {
    const bool usable = unk->is_number_unsigned() && unk->get<uint64_t>() < scores.size();
    if (!usable) return BadValue("model.unk_id", *unk, "it must be null or an id of model.vocab");
    unk_id = unk->get<TokenId>();
  }
  bool byte_fallback = false;
  if (Status status = Flag("byte_fallback", &byte_fallback); !status.ok()) return status;
  return std::unique_ptr<Model>(
      std::make_unique<UnigramModel>(*vocabulary_, std::move(scores), unk_id, byte_fallback));
}

Result<std::unique_ptr<Model>> ModelReader::BuildWords() {
  const Result<TokenId> unk = UnknownToken(/*required=*/false);
  if (!unk.ok()) return unk.status();
  if (type_ == "WordLevel")
    return std::unique_ptr<Model>(std::make_unique<WordLevelModel>(*vocabulary_, *unk));
  const Result<std::string> prefix = Affix("continuing_subword_prefix");
  if (!prefix.ok()) return prefix.status();
  size_t max_chars = 100;
  if (const Json* number = Option("max_input_chars_per_word"); number != nullptr) {
    if (!number->is_number_unsigned())
      return BadValue("model.max_input_chars_per_word", *number, "it must be a number from 0 up");
    max_chars = number->get<size_t>();
  }
  return std::unique_ptr<Model>(
      std::make_unique<WordPieceModel>(*vocabulary_, *unk, *prefix, max_chars));
}

}  // namespace slipstream::text
