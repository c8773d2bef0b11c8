// The decoder section.
#include "text/components.h"

namespace slipstream::text {
namespace {

constexpr size_t kMaxStages = 64;
constexpr uint64_t kMaxStrip = 4096;

Result<DecoderStage> ReadStrip(const Json& value, const std::string& path) {
  Result<std::string> content = ReadChar(value, path, "content");
  if (!content.ok()) return content.status();
  DecoderStage stage{DecoderStage::kStrip, std::move(*content)};
  for (const auto& [key, count] : {std::pair{"start", &stage.start}, {"stop", &stage.stop}}) {
    const Json number = value.value(key, Json());
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMaxStrip)
      return BadValue(path + "." + key, number, "it must be a number from 0 to 4096");
    *count = number.get<size_t>();
  }
  return stage;
}

Result<DecoderStage> ReadReplace(const Json& value, const std::string& path) {
  Result<std::unique_ptr<SplitPattern>> pattern = ReadPattern(value, path);
  if (!pattern.ok()) return pattern.status();
  Result<std::string> content = ReadString(value, path, "content");
  if (!content.ok()) return content.status();
  return DecoderStage{DecoderStage::kReplace, std::move(*content), std::move(*pattern)};
}

Result<DecoderStage> ReadMetaspace(const Json& value, const std::string& path) {
  Result<std::string> mark = ReadChar(value, path, "replacement");
  if (!mark.ok()) return mark.status();
  DecoderStage stage{DecoderStage::kMetaspace, std::move(*mark)};
  const Json scheme = value.value("prepend_scheme", Json());
  const bool known =
      scheme.is_null() || Is(scheme, "always") || Is(scheme, "first") || Is(scheme, "never");
  if (!known)
    return BadValue(path + ".prepend_scheme", scheme, "supported are always, first and never");
  stage.flag =
      scheme.is_null() ? value.value("add_prefix_space", Json()) != false : !Is(scheme, "never");
  return stage;
}

Result<DecoderStage> ReadWordPiece(const Json& value, const std::string& path) {
  Result<std::string> prefix = ReadString(value, path, "prefix");
  if (!prefix.ok()) return prefix.status();
  const Result<bool> cleanup = ReadBool(value, path, "cleanup");
  if (!cleanup.ok()) return cleanup.status();
  DecoderStage stage{DecoderStage::kWordPiece, std::move(*prefix)};
  stage.flag = *cleanup;
  return stage;
}

Result<DecoderStage> ReadStage(const Json& value, const std::string& path) {
  const std::string type = TypeOf(value);
  if (type == "ByteLevel") return DecoderStage{DecoderStage::kByteLevel};
  if (type == "ByteFallback") return DecoderStage{DecoderStage::kByteFallback};
  if (type == "Fuse") return DecoderStage{DecoderStage::kFuse};
  if (type == "Strip") return ReadStrip(value, path);
  if (type == "Replace") return ReadReplace(value, path);
  if (type == "Metaspace") return ReadMetaspace(value, path);
  if (type == "WordPiece") return ReadWordPiece(value, path);
  if (type == "BPEDecoder") {
    Result<std::string> suffix = ReadString(value, path, "suffix");
    if (!suffix.ok()) return suffix.status();
    if (suffix->empty()) return BadValue(path + ".suffix", "", "it must not be empty");
    return DecoderStage{DecoderStage::kBpeSuffix, std::move(*suffix)};
  }
  return BadValue(path, value,
                  "supported are null, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, "
                  "WordPiece, BPEDecoder and Sequence");
}

Status AddDecoder(const Json& value, const std::string& path, std::vector<DecoderStage>* out) {
  if (TypeOf(value) == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "decoders");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".decoders[" + std::to_string(i) + "]";
      if (Status status = AddDecoder((**elements)[i], inner, out); !status.ok()) return status;
    }
    return Status::Ok();
  }
  if (out->size() == kMaxStages) return BadValue(path, value, "at most 64 decoders are supported");
  Result<DecoderStage> stage = ReadStage(value, path);
  if (!stage.ok()) return stage.status();
  out->push_back(std::move(*stage));
  return Status::Ok();
}

}  // namespace

Result<std::vector<DecoderStage>> ReadDecoder(const Json& value) {
  std::vector<DecoderStage> stages;
  if (value.is_null()) {
    stages.push_back({DecoderStage::kJoin});
    return stages;
  }
  if (Status status = AddDecoder(value, "decoder", &stages); !status.ok()) return status;
  return stages;
}

}  // namespace slipstream::text
