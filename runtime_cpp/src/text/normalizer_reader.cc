// The normalizer section.
#include "text/components.h"

namespace slipstream::text {
namespace {

constexpr size_t kMaxStages = 64;

using Stage = std::unique_ptr<NormalizerStage>;

Result<Stage> ReadReplace(const Json& value, const std::string& path) {
  Result<std::unique_ptr<SplitPattern>> pattern = ReadPattern(value, path);
  if (!pattern.ok()) return pattern.status();
  Result<std::string> content = ReadString(value, path, "content");
  if (!content.ok()) return content.status();
  return MakeReplace(std::move(*pattern), std::move(*content));
}

Result<Stage> ReadStrip(const Json& value, const std::string& path) {
  const Result<bool> left = ReadBool(value, path, "strip_left");
  if (!left.ok()) return left.status();
  const Result<bool> right = ReadBool(value, path, "strip_right");
  if (!right.ok()) return right.status();
  return MakeStrip(*left, *right);
}

Result<Stage> ReadBert(const Json& value, const std::string& path) {
  BertCleaning cleaning;
  const std::pair<const char*, bool*> flags[] = {
      {"clean_text", &cleaning.clean_text},
      {"handle_chinese_chars", &cleaning.handle_chinese_chars},
      {"lowercase", &cleaning.lowercase}};
  for (const auto& [key, flag] : flags) {
    const Result<bool> read = ReadBool(value, path, key);
    if (!read.ok()) return read.status();
    *flag = *read;
  }
  // null: accents go when case goes.
  cleaning.strip_accents = cleaning.lowercase;
  if (!value.value("strip_accents", Json()).is_null()) {
    const Result<bool> strip = ReadBool(value, path, "strip_accents");
    if (!strip.ok()) return strip.status();
    cleaning.strip_accents = *strip;
  }
  return MakeBertNormalizer(cleaning);
}

Result<Stage> ReadPrecompiled(const Json& value, const std::string& path) {
  const Result<std::string> text = ReadString(value, path, "precompiled_charsmap");
  if (!text.ok()) return text.status();
  Result<Charsmap> charsmap = Charsmap::FromBase64(*text);
  if (!charsmap.ok())
    return BadValue(path + ".precompiled_charsmap", *text, charsmap.status().message());
  return MakePrecompiled(std::move(*charsmap));
}

Result<Stage> ReadStage(const Json& value, const std::string& path) {
  const std::string type = TypeOf(value);
  constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                {"NFD", NormalForm::kNfd},
                                                                {"NFKC", NormalForm::kNfkc},
                                                                {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type == name) return MakeNormalForm(form);
  }
  if (type == "Replace") return ReadReplace(value, path);
  if (type == "Strip") return ReadStrip(value, path);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "BertNormalizer") return ReadBert(value, path);
  if (type == "Precompiled") return ReadPrecompiled(value, path);
  if (type == "ByteLevel") return MakeByteLevelNormalizer();
  if (type == "Prepend") {
    Result<std::string> prefix = ReadString(value, path, "prepend");
    if (!prefix.ok()) return prefix.status();
    return MakePrepend(std::move(*prefix));
  }
  return BadValue(path, value,
                  "supported are NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip, Lowercase, "
                  "StripAccents, BertNormalizer, Precompiled, ByteLevel and Sequence");
}

Status AddNormalizer(const Json& value, const std::string& path, Normalizer* out) {
  if (TypeOf(value) == "Sequence") {
    const Result<const Json*> elements = Elements(value, path, "normalizers");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".normalizers[" + std::to_string(i) + "]";
      if (Status status = AddNormalizer((**elements)[i], inner, out); !status.ok()) return status;
    }
    return Status::Ok();
  }
  if (out->stages.size() == kMaxStages)
    return BadValue(path, value, "at most 64 normalizers are supported");
  Result<Stage> stage = ReadStage(value, path);
  if (!stage.ok()) return stage.status();
  out->stages.push_back(std::move(*stage));
  return Status::Ok();
}

}  // namespace

Result<Normalizer> ReadNormalizer(const Json& value) {
  Normalizer normalizer;
  if (value.is_null()) return normalizer;
  if (Status status = AddNormalizer(value, "normalizer", &normalizer); !status.ok()) return status;
  return normalizer;
}

}  // namespace slipstream::text
