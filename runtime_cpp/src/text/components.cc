#include "text/components.h"

#include <cstdint>
#include <new>
#include <utility>

#include "core/excerpt.h"
#include "core/json_util.h"
#include "text/regex_program.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

std::string Show(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Of a component, its type says more than the start of its text.
  if (const std::string type = TypeOf(value); text.size() > 40 && !type.empty())
    return "{\"type\":\"" + core::Excerpt(type) + "\",...}";
  return core::Excerpt(text);
}

// A component or the last one of a Sequence, at any depth. The file reader caps the depth of JSON.
const Json& LastOf(const Json& value, const char* key) {
  const Json* last = &value;
  while (TypeOf(*last) == "Sequence" && last->contains(key) && last->at(key).is_array() &&
         !last->at(key).empty()) {
    last = &last->at(key).back();
  }
  return *last;
}

}  // namespace

bool Is(const Json& value, std::string_view text) {
  const std::string* string = value.get_ptr<const std::string*>();
  return string != nullptr && *string == text;
}

bool ParseTree(std::string_view raw, core::JsonTree* value) {
  core::JsonLimits limits;
  limits.max_bytes = UINT64_MAX;
  limits.max_depth = INT32_MAX;
  limits.repeated_keys = true;
  Result<core::JsonTree> parsed = core::ParseJson(raw, "a section", limits);
  if (!parsed.ok()) {
    if (parsed.status().code() == StatusCode::kResourceExhausted) throw std::bad_alloc();
    return false;
  }
  *value = *std::move(parsed);
  return true;
}

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

Result<std::string> ReadString(const Json& object, const std::string& path, const char* key) {
  const auto it = object.find(key);
  if (it != object.end() && it->is_string()) return it->get<std::string>();
  return BadValue(path + "." + key, it == object.end() ? Json() : *it, "it must be a string");
}

Result<std::string> ReadChar(const Json& object, const std::string& path, const char* key) {
  Result<std::string> text = ReadString(object, path, key);
  if (text.ok() && (text->empty() || DecodeUtf8(*text, 0).size != text->size()))
    return BadValue(path + "." + key, *text, "it must be one character");
  return text;
}

std::string TypeOf(const Json& value) {
  if (!value.is_object()) return "";
  const auto it = value.find("type");
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

Result<const Json*> Elements(const Json& value, const std::string& path, const char* key) {
  const auto it = value.find(key);
  if (it == value.end() || !it->is_array()) {
    return BadValue(path, value, std::string("a Sequence holds an array '") + key + "'");
  }
  return &*it;
}

Result<std::unique_ptr<SplitPattern>> ReadPattern(const Json& value, const std::string& path) {
  const auto pattern = value.find("pattern");
  const bool is_object = pattern != value.end() && pattern->is_object() && pattern->size() == 1;
  if (!is_object || !pattern->begin()->is_string()) {
    return BadValue(path + ".pattern", pattern != value.end() ? *pattern : Json(),
                    "supported are {\"Regex\": text} and {\"String\": text}");
  }
  const std::string text = pattern->begin()->get<std::string>();
  if (pattern->begin().key() == "String" && !text.empty()) return MakeLiteralPattern(text);
  if (pattern->begin().key() != "Regex") {
    return BadValue(path + ".pattern", *pattern,
                    "supported are {\"Regex\": text} and {\"String\": text that is not empty}");
  }
  if (std::unique_ptr<SplitPattern> known = MakeKnownPattern(text); known != nullptr) return known;
  Result<std::unique_ptr<SplitPattern>> compiled = MakeRegexPattern(text);
  if (!compiled.ok())
    return BadValue(path + ".pattern.Regex", *pattern->begin(), compiled.status().message());
  return compiled;
}

bool IsByteLevel(const Json& pre_tokenizer, const Json& decoder) {
  if (TypeOf(LastOf(pre_tokenizer, "pretokenizers")) != "ByteLevel") return false;
  const Json* last = &decoder;
  // ByteLevel joins everything, so that Fuse behind it has nothing left to do.
  while (TypeOf(*last) == "Sequence" && last->contains("decoders") &&
         last->at("decoders").is_array() && !last->at("decoders").empty()) {
    const Json& decoders = last->at("decoders");
    for (size_t i = 1; i < decoders.size(); ++i) {
      if (TypeOf(decoders[i]) != "Fuse") return false;
    }
    last = &decoders[0];
  }
  return TypeOf(*last) == "ByteLevel";
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
    token.pattern = token.content;
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace slipstream::text
