// The post_processor section.
#include "text/components.h"

namespace slipstream::text {
namespace {

// Templates inside templates multiply.
constexpr size_t kMaxTemplate = 4096;

// One piece of a template: appends its ids.
Status AddTemplatePiece(const Json& piece, const std::string& path, const Json& special_tokens,
                        std::vector<TokenId>* ids) {
  const bool is_object = piece.is_object() && piece.size() == 1 && piece.begin()->is_object();
  const Json* id = is_object && piece.begin()->contains("id") ? &piece.begin()->at("id") : nullptr;
  if (id != nullptr && piece.begin().key() == "Sequence" && Is(*id, "A")) {
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

Result<IdTemplate> ReadTemplate(const Json& value, const std::string& path) {
  if (!value.contains("single") || !value.at("single").is_array())
    return BadValue(path, value, "a TemplateProcessing holds an array 'single'");
  const Json none = Json::object();
  const bool has_tokens =
      value.contains("special_tokens") && value.at("special_tokens").is_object();
  const Json& special_tokens = has_tokens ? value.at("special_tokens") : none;
  const Json& single = value.at("single");
  IdTemplate ids;
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string inner = path + ".single[" + std::to_string(i) + "]";
    if (Status status = AddTemplatePiece(single[i], inner, special_tokens, &ids); !status.ok())
      return status;
  }
  return ids;
}

// BertProcessing and RobertaProcessing: "cls" and "sep" are pairs of a token and its id.
Result<IdTemplate> ReadBert(const Json& value, const std::string& path) {
  IdTemplate ids;
  for (const char* key : {"cls", "sep"}) {
    const Json pair = value.value(key, Json());
    const bool usable = pair.is_array() && pair.size() == 2 && pair[1].is_number_unsigned() &&
                        pair[1].get<uint64_t>() <= INT32_MAX;
    if (!usable)
      return BadValue(path + "." + key, pair, "it must be a token and its id, from 0 up");
    ids.push_back(pair[1].get<TokenId>());
    if (ids.size() == 1) ids.push_back(-1);
  }
  return ids;
}

Status AddPostProcessor(const Json& value, const std::string& path, IdTemplate* ids) {
  const std::string type = TypeOf(value);
  if (type == "ByteLevel") return Status::Ok();  // changes offsets only
  if (type == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "processors");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".processors[" + std::to_string(i) + "]";
      if (Status status = AddPostProcessor((**elements)[i], inner, ids); !status.ok())
        return status;
    }
    return Status::Ok();
  }
  const bool bert = type == "BertProcessing" || type == "RobertaProcessing";
  if (!bert && type != "TemplateProcessing") {
    return BadValue(path, value,
                    "supported are null, ByteLevel, TemplateProcessing, BertProcessing, "
                    "RobertaProcessing and Sequence");
  }
  const Result<IdTemplate> outer = bert ? ReadBert(value, path) : ReadTemplate(value, path);
  if (!outer.ok()) return outer.status();
  IdTemplate joined;  // the ids that came out so far take the place of the text
  for (const TokenId id : *outer) {
    if (id >= 0) {
      joined.push_back(id);
    } else {
      joined.insert(joined.end(), ids->begin(), ids->end());
    }
    if (joined.size() > kMaxTemplate)
      return BadValue(path, value, "the templates together insert more than 4096 ids");
  }
  *ids = std::move(joined);
  return Status::Ok();
}

}  // namespace

Result<IdTemplate> ReadPostProcessor(const Json& value) {
  IdTemplate ids = {-1};
  if (value.is_null()) return ids;
  if (Status status = AddPostProcessor(value, "post_processor", &ids); !status.ok()) return status;
  return ids;
}

}  // namespace slipstream::text
