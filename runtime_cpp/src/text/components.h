// Readers of the small sections of a tokenizer.json. Whatever they do not support is
// kInvalidArgument with the JSON path, the value and what is supported: a tokenizer that is almost
// right gives wrong ids silently.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_tree.h"
#include "slipstream/status.h"
#include "slipstream/types.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace slipstream::text {

using Json = nlohmann::json;

/// What is wrong where ParseTree gives false.
inline constexpr const char* kWrongTree = "wrong JSON in the value that ends";

/// Parses a value that JsonCursor skipped, which bounds its depth. Of equal keys the last counts,
/// as in the reference. False when it is not JSON; throws std::bad_alloc.
bool ParseTree(std::string_view raw, core::JsonTree* value);

/// Whether `value` is this string. The == of the library ends the process when memory runs out.
bool Is(const Json& value, std::string_view text);

/// An error about the value at `path`.
Status BadValue(const std::string& path, const Json& value, const std::string& supported);

/// Member `key` of `object` as a boolean; `fallback` when it is absent, unless that is null: then
/// it is an error.
Result<bool> ReadBool(const Json& object, const std::string& path, const char* key,
                      const bool* fallback = nullptr);
/// Member `key` as a string; an error when it is none.
Result<std::string> ReadString(const Json& object, const std::string& path, const char* key);
/// Member `key` as a string of one character.
Result<std::string> ReadChar(const Json& object, const std::string& path, const char* key);
/// The "type" of a component; "" when it has none.
std::string TypeOf(const Json& value);
/// The elements of a Sequence component.
Result<const Json*> Elements(const Json& value, const std::string& path, const char* key);
/// {"Regex": text} or {"String": text}, in the member "pattern".
Result<std::unique_ptr<SplitPattern>> ReadPattern(const Json& value, const std::string& path);

/// The ids of one text are put around by a template: -1 stands for them.
using IdTemplate = std::vector<TokenId>;

Result<Normalizer> ReadNormalizer(const Json& value);
/// `spell_bytes` says that ByteLevel must spell bytes as characters, for a vocabulary of text.
Result<PreTokenizer> ReadPreTokenizer(const Json& value, bool spell_bytes);
/// What add_special_tokens puts around the ids. null and ByteLevel give {-1}.
Result<IdTemplate> ReadPostProcessor(const Json& value);
/// The decoder; null joins tokens with spaces.
Result<std::vector<DecoderStage>> ReadDecoder(const Json& value);
/// Elements of added_tokens, in order, with the ids that the file declares (not yet checked). Empty
/// contents are left out.
Result<std::vector<AddedToken>> ReadAddedTokens(const Json& value);

/// Whether a vocabulary of bytes serves: the pre-tokenizer ends with ByteLevel, and the decoder is
/// nothing but ByteLevel.
bool IsByteLevel(const Json& pre_tokenizer, const Json& decoder);

}  // namespace slipstream::text
