// The pre_tokenizer section.
#include "text/components.h"

namespace slipstream::text {
namespace {

constexpr size_t kMaxStages = 64;

using Stage = PreTokenizerStage;

Stage Split(std::unique_ptr<SplitPattern> pattern, SplitBehavior behavior, bool invert = false) {
  Stage stage;
  stage.pattern = std::move(pattern);
  stage.behavior = behavior;
  stage.invert = invert;
  return stage;
}

Result<SplitBehavior> ReadBehavior(const Json& value, const std::string& path) {
  constexpr std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"Contiguous", SplitBehavior::kContiguous},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
  };
  const auto behavior = value.find("behavior");
  for (const auto& [name, kind] : kBehaviors) {
    if (behavior != value.end() && *behavior == name) {
      return kind;
    }
  }
  return BadValue(
      path + ".behavior", behavior != value.end() ? *behavior : Json(),
      "supported are Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext");
}

// Reads components into stages, in order.
class Reader {
 public:
  explicit Reader(bool spell_bytes) : spell_bytes_(spell_bytes) {}

  Status Add(const Json& value, const std::string& path) {
    const std::string type = TypeOf(value);
    if (type == "Sequence") return AddSequence(value, path);
    if (out.stages.size() >= kMaxStages)
      return BadValue(path, value, "at most 64 pre-tokenizers are supported");
    if (type == "ByteLevel") return AddByteLevel(value, path);
    if (type == "Split") return AddSplit(value, path);
    if (type == "Metaspace") return AddMetaspace(value, path);
    if (type == "Digits") {
      const Result<bool> individual = ReadBool(value, path, "individual_digits");
      if (!individual.ok()) return individual.status();
      Push(Split(MakeDigitsPattern(*individual), SplitBehavior::kIsolated));
    } else if (type == "Punctuation") {
      core::JsonTree isolated(Json::object());  // older files do not say
      isolated["behavior"] = "Isolated";
      const Result<SplitBehavior> behavior =
          ReadBehavior(value.contains("behavior") ? value : isolated, path);
      if (!behavior.ok()) return behavior.status();
      Push(Split(MakePunctuationPattern(), *behavior));
    } else if (type == "CharDelimiterSplit") {
      Result<std::string> delimiter = ReadChar(value, path, "delimiter");
      if (!delimiter.ok()) return delimiter.status();
      Push(Split(MakeLiteralPattern(*delimiter), SplitBehavior::kRemoved));
    } else if (type == "Whitespace") {
      Push(Split(MakeWordPattern(), SplitBehavior::kRemoved, /*invert=*/true));
    } else if (type == "WhitespaceSplit") {
      Push(Split(MakeSpacePattern(), SplitBehavior::kRemoved));
    } else if (type == "BertPreTokenizer") {
      Push(Split(MakeSpacePattern(), SplitBehavior::kRemoved));
      Push(Split(MakePunctuationPattern(), SplitBehavior::kIsolated));
    } else {
      return BadValue(path, value,
                      "supported are ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, "
                      "WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer and Sequence");
    }
    return Status::Ok();
  }

  PreTokenizer out;

 private:
  void Push(Stage stage) { out.stages.push_back(std::move(stage)); }

  Status AddSequence(const Json& value, const std::string& path) {
    const Result<const Json*> elements = Elements(value, path, "pretokenizers");
    if (!elements.ok()) return elements.status();
    for (size_t i = 0; i < (*elements)->size(); ++i) {
      const std::string inner = path + ".pretokenizers[" + std::to_string(i) + "]";
      if (Status status = Add((**elements)[i], inner); !status.ok()) return status;
    }
    return Status::Ok();
  }

  Status AddByteLevel(const Json& value, const std::string& path) {
    if (ended_) return BadValue(path, value, "ByteLevel may occur once, as the last one");
    const bool use_regex_default = true;
    const Result<bool> prefix = ReadBool(value, path, "add_prefix_space");
    if (!prefix.ok()) return prefix.status();
    const Result<bool> use_regex = ReadBool(value, path, "use_regex", &use_regex_default);
    if (!use_regex.ok()) return use_regex.status();
    if (*prefix) {
      Stage stage;
      stage.kind = Stage::kPrefixSpace;
      Push(std::move(stage));
    }
    if (*use_regex) Push(Split(MakeGpt2Pattern(), SplitBehavior::kIsolated));
    if (spell_bytes_) {
      Stage stage;
      stage.kind = Stage::kSpellBytes;
      Push(std::move(stage));
    } else {
      ended_ = true;
    }
    return Status::Ok();
  }

  Status AddSplit(const Json& value, const std::string& path) {
    Result<std::unique_ptr<SplitPattern>> pattern = ReadPattern(value, path);
    if (!pattern.ok()) return pattern.status();
    const Result<SplitBehavior> behavior = ReadBehavior(value, path);
    if (!behavior.ok()) return behavior.status();
    const Result<bool> invert = ReadBool(value, path, "invert");
    if (!invert.ok()) return invert.status();
    Push(Split(std::move(*pattern), *behavior, *invert));
    return Status::Ok();
  }

  Status AddMetaspace(const Json& value, const std::string& path) {
    Result<std::string> replacement = ReadChar(value, path, "replacement");
    if (!replacement.ok()) return replacement.status();
    const bool split_default = true;
    const Result<bool> split = ReadBool(value, path, "split", &split_default);
    if (!split.ok()) return split.status();
    Stage stage;
    stage.kind = Stage::kMetaspace;
    stage.replacement = *replacement;
    const Json scheme = value.value("prepend_scheme", Json());
    if (Is(scheme, "first")) {
      stage.prepend = Stage::kFirst;
    } else if (Is(scheme, "never")) {
      stage.prepend = Stage::kNever;
    } else if (!scheme.is_null() && !Is(scheme, "always")) {
      return BadValue(path + ".prepend_scheme", scheme, "supported are always, first and never");
    } else if (scheme.is_null() && value.value("add_prefix_space", Json()) == false) {
      stage.prepend = Stage::kNever;  // what older files say
    }
    Push(std::move(stage));
    if (*split) Push(Split(MakeLiteralPattern(*replacement), SplitBehavior::kMergedWithNext));
    return Status::Ok();
  }

  bool spell_bytes_;
  bool ended_ = false;
};

}  // namespace

Result<PreTokenizer> ReadPreTokenizer(const Json& value, bool spell_bytes) {
  Reader reader(spell_bytes);
  if (value.is_null()) return std::move(reader.out);
  if (Status status = reader.Add(value, "pre_tokenizer"); !status.ok()) return status;
  return std::move(reader.out);
}

}  // namespace slipstream::text
