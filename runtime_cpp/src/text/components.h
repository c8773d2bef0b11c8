// Readers of the small sections of a tokenizer.json. Whatever they do not support is
// kInvalidArgument with the JSON path, the value and what is supported: a tokenizer that is almost
// right gives wrong ids silently.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slipstream/status.h"
#include "slipstream/types.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"

namespace slipstream::text {

using Json = nlohmann::json;

/// An error about the value at `path`.
Status BadValue(const std::string& path, const Json& value, const std::string& supported);

/// Member `key` of `object` as a boolean; `fallback` when it is absent, unless that is null: then
/// it is an error.
Result<bool> ReadBool(const Json& object, const std::string& path, const char* key,
                      const bool* fallback = nullptr);

/// null, or an empty Sequence.
Status CheckNormalizer(const Json& value);
/// ByteLevel, alone or at the end of a Sequence of Split and Digits.
Result<PreTokenizer> ReadPreTokenizer(const Json& value);
/// What add_special_tokens puts around the ids: -1 stands for the ids of the text. null and
/// ByteLevel give {-1}.
Result<std::vector<TokenId>> ReadPostProcessor(const Json& value);
/// ByteLevel, alone or in a Sequence with Fuse behind it.
Status CheckDecoder(const Json& value);
/// Elements of added_tokens, in order, with the ids that the file declares (not yet checked). Empty
/// contents are left out.
Result<std::vector<AddedToken>> ReadAddedTokens(const Json& value);

}  // namespace slipstream::text
