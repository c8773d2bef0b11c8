#include "text/components.h"

#include "text/regex_program.h"

namespace slipstream::text {
namespace {

// Sequences inside sequences are read recursively; the file reader caps the depth of the JSON
// itself.
constexpr size_t kMaxStages = 64;

std::string Show(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 160) {
    text.resize(160);
    while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty() && static_cast<uint8_t>(text.back()) >= 0xC0) text.pop_back();
    text += "...";
  }
  return text;
}

// The "type" of a component; "" when it has none.
std::string TypeOf(const Json& value) {
  if (!value.is_object()) return "";
  const auto it = value.find("type");
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

// The elements of a Sequence component.
Result<const Json*> Elements(const Json& value, const std::string& path, const char* key) {
  const auto it = value.find(key);
  if (it == value.end() || !it->is_array()) {
    return BadValue(path, value, std::string("a Sequence holds an array '") + key + "'");
  }
  return &*it;
}

constexpr char kPreTokenizers[] =
    "supported are ByteLevel, alone or as the last of a Sequence of Split and Digits (Metaspace, "
    "Whitespace and others "
    "are not)";

Result<SplitStage> ReadSplit(const Json& value, const std::string& path) {
  SplitStage stage;
  const auto pattern = value.find("pattern");
  const bool is_object = pattern != value.end() && pattern->is_object() && pattern->size() == 1;
  if (!is_object || !pattern->begin()->is_string()) {
    return BadValue(path + ".pattern", pattern != value.end() ? *pattern : Json(),
                    "supported are {\"Regex\": text} and {\"String\": text}");
  }
  const std::string text = pattern->begin()->get<std::string>();
  if (pattern->begin().key() == "Regex") {
    stage.pattern = MakeKnownPattern(text);
    if (stage.pattern == nullptr) {
      Result<std::unique_ptr<SplitPattern>> compiled = MakeRegexPattern(text);
      if (!compiled.ok())
        return BadValue(path + ".pattern.Regex", *pattern->begin(), compiled.status().message());
      stage.pattern = std::move(*compiled);
    }
  } else if (pattern->begin().key() == "String" && !text.empty()) {
    stage.pattern = MakeLiteralPattern(text);
  } else {
    return BadValue(path + ".pattern", *pattern,
                    "supported are {\"Regex\": text} and {\"String\": text that is not empty}");
  }
  constexpr std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"Contiguous", SplitBehavior::kContiguous},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
  };
  const auto behavior = value.find("behavior");
  bool known = false;
  for (const auto& [name, kind] : kBehaviors) {
    if (behavior != value.end() && *behavior == name) {
      stage.behavior = kind;
      known = true;
    }
  }
  if (!known) {
    return BadValue(
        path + ".behavior", behavior != value.end() ? *behavior : Json(),
        "supported are Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext");
  }
  const Result<bool> invert = ReadBool(value, path, "invert");
  if (!invert.ok()) return invert.status();
  stage.invert = *invert;
  return stage;
}

// Adds the stages of one component; `ended` says that a ByteLevel was seen, behind which nothing
// may come.
Status AddPreTokenizer(const Json& value, const std::string& path, PreTokenizer* out, bool* ended) {
  const std::string type = TypeOf(value);
  if (type == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "pretokenizers");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".pretokenizers[" + std::to_string(i) + "]";
      if (Status status = AddPreTokenizer((**elements)[i], inner, out, ended); !status.ok())
        return status;
    }
    return Status::Ok();
  }
  if (*ended) return BadValue(path, value, "nothing may follow the ByteLevel pre-tokenizer");
  if (type == "ByteLevel") {
    const bool use_regex_default = true;
    const Result<bool> prefix = ReadBool(value, path, "add_prefix_space");
    if (!prefix.ok()) return prefix.status();
    const Result<bool> use_regex = ReadBool(value, path, "use_regex", &use_regex_default);
    if (!use_regex.ok()) return use_regex.status();
    out->add_prefix_space = *prefix;
    if (*use_regex) out->byte_level_pattern = MakeGpt2Pattern();
    *ended = true;
    return Status::Ok();
  }
  if (out->stages.size() == kMaxStages)
    return BadValue(path, value, "at most 64 pre-tokenizers are supported");
  if (type == "Digits") {
    const Result<bool> individual = ReadBool(value, path, "individual_digits");
    if (!individual.ok()) return individual.status();
    out->stages.push_back({MakeDigitsPattern(*individual)});
    return Status::Ok();
  }
  if (type == "Split") {
    Result<SplitStage> stage = ReadSplit(value, path);
    if (!stage.ok()) return stage.status();
    out->stages.push_back(std::move(*stage));
    return Status::Ok();
  }
  return BadValue(path, value, kPreTokenizers);
}

// One piece of a template: appends its ids.
Status AddTemplatePiece(const Json& piece, const std::string& path, const Json& special_tokens,
                        std::vector<TokenId>* ids) {
  const bool is_object = piece.is_object() && piece.size() == 1 && piece.begin()->is_object();
  const Json* id = is_object && piece.begin()->contains("id") ? &piece.begin()->at("id") : nullptr;
  if (id != nullptr && piece.begin().key() == "Sequence" && *id == "A") {
    ids->push_back(-1);
    return Status::Ok();
  }
  const bool special = id != nullptr && id->is_string() && piece.begin().key() == "SpecialToken";
  if (!special) return BadValue(path, piece, "supported are Sequence A and SpecialToken");
  const auto token = special_tokens.find(id->get<std::string>());
  if (token == special_tokens.end() || !token->is_object() || !token->contains("ids") ||
      !token->at("ids").is_array()) {
    return BadValue(path, piece,
                    "every SpecialToken needs its ids in post_processor.special_tokens");
  }
  for (const Json& value : token->at("ids")) {
    const int64_t number = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (number < 0 || number > INT32_MAX)
      return BadValue(path, *token, "ids must be numbers from 0 up");
    ids->push_back(static_cast<TokenId>(number));
  }
  return Status::Ok();
}

Status AddPostProcessor(const Json& value, const std::string& path, std::vector<TokenId>* ids,
                        bool* has_template) {
  const std::string type = TypeOf(value);
  if (type == "ByteLevel") return Status::Ok();  // changes offsets only
  if (type == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "processors");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".processors[" + std::to_string(i) + "]";
      if (Status status = AddPostProcessor((**elements)[i], inner, ids, has_template); !status.ok())
        return status;
    }
    return Status::Ok();
  }
  const bool usable =
      type == "TemplateProcessing" && value.contains("single") && value.at("single").is_array();
  if (!usable || *has_template) {
    return BadValue(
        path, value,
        "supported are null, ByteLevel, one TemplateProcessing, and a Sequence of these");
  }
  *has_template = true;
  ids->clear();
  const Json none = Json::object();
  const bool has_tokens =
      value.contains("special_tokens") && value.at("special_tokens").is_object();
  const Json& special_tokens = has_tokens ? value.at("special_tokens") : none;
  const Json& single = value.at("single");
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string inner = path + ".single[" + std::to_string(i) + "]";
    if (Status status = AddTemplatePiece(single[i], inner, special_tokens, ids); !status.ok())
      return status;
  }
  return Status::Ok();
}

Status AddDecoder(const Json& value, const std::string& path, bool* has_byte_level) {
  const std::string type = TypeOf(value);
  if (type == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "decoders");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".decoders[" + std::to_string(i) + "]";
      if (Status status = AddDecoder((**elements)[i], inner, has_byte_level); !status.ok())
        return status;
    }
    return Status::Ok();
  }
  if (type == "ByteLevel" && !*has_byte_level) {
    *has_byte_level = true;
    return Status::Ok();
  }
  if (type == "Fuse" && *has_byte_level)
    return Status::Ok();  // ByteLevel has already joined everything
  return BadValue(path, value,
                  "supported are ByteLevel, and a Sequence of ByteLevel and Fuse behind it");
}

}  // namespace

Status BadValue(const std::string& path, const Json& value, const std::string& supported) {
  return {StatusCode::kInvalidArgument,
          "tokenizer.json: " + path + " is " + Show(value) + ": " + supported};
}

Result<bool> ReadBool(const Json& object, const std::string& path, const char* key,
                      const bool* fallback) {
  const auto it = object.find(key);
  if (it == object.end() && fallback != nullptr) return *fallback;
  if (it != object.end() && it->is_boolean()) return it->get<bool>();
  return BadValue(path + "." + key, it == object.end() ? Json() : *it, "it must be true or false");
}

Status CheckNormalizer(const Json& value) {
  if (value.is_null()) return Status::Ok();
  if (TypeOf(value) == "Sequence") {
    const Result<const Json*> elements = Elements(value, "normalizer", "normalizers");
    if (!elements.ok()) return elements.status();
    if ((*elements)->empty()) return Status::Ok();
  }
  return BadValue(
      "normalizer", value,
      "supported are null and an empty Sequence (NFC, Replace, Prepend and others are not)");
}

Result<PreTokenizer> ReadPreTokenizer(const Json& value) {
  PreTokenizer pre_tokenizer;
  bool ended = false;
  if (value.is_null()) return BadValue("pre_tokenizer", value, kPreTokenizers);
  if (Status status = AddPreTokenizer(value, "pre_tokenizer", &pre_tokenizer, &ended); !status.ok())
    return status;
  if (!ended)
    return BadValue("pre_tokenizer", value, std::string("it has no ByteLevel; ") + kPreTokenizers);
  return pre_tokenizer;
}

Result<std::vector<TokenId>> ReadPostProcessor(const Json& value) {
  std::vector<TokenId> ids = {-1};
  bool has_template = false;
  if (value.is_null()) return ids;
  if (Status status = AddPostProcessor(value, "post_processor", &ids, &has_template); !status.ok())
    return status;
  return ids;
}

Status CheckDecoder(const Json& value) {
  bool has_byte_level = false;
  if (!value.is_null()) {
    if (Status status = AddDecoder(value, "decoder", &has_byte_level); !status.ok()) return status;
  }
  if (has_byte_level) return Status::Ok();
  return BadValue("decoder", value,
                  "supported are ByteLevel, and a Sequence of ByteLevel and Fuse behind it");
}

Result<std::vector<AddedToken>> ReadAddedTokens(const Json& value) {
  std::vector<AddedToken> tokens;
  if (value.is_null()) return tokens;
  if (!value.is_array()) return BadValue("added_tokens", value, "it must be an array");
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = "added_tokens[" + std::to_string(i) + "]";
    const Json& item = value[i];
    const bool usable = item.is_object() && item.contains("content") &&
                        item.at("content").is_string() && item.contains("id") &&
                        item.at("id").is_number_integer();
    if (!usable)
      return BadValue(path, item, "an added token needs an id (a number) and a content (a string)");
    AddedToken token;
    token.content = item.at("content").get<std::string>();
    const bool in_range =
        item.at("id").is_number_unsigned() && item.at("id").get<uint64_t>() <= INT32_MAX;
    if (!in_range) return BadValue(path + ".id", item.at("id"), "ids must be from 0 to 2147483647");
    token.id = item.at("id").get<TokenId>();
    const std::pair<const char*, bool*> flags[] = {{"single_word", &token.single_word},
                                                   {"lstrip", &token.lstrip},
                                                   {"rstrip", &token.rstrip},
                                                   {"normalized", &token.normalized},
                                                   {"special", &token.special}};
    for (const auto& [key, flag] : flags) {
      const Result<bool> read = ReadBool(item, path, key);
      if (!read.ok()) return read.status();
      *flag = *read;
    }
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace slipstream::text
