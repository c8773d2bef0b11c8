#include "engine/manifest.h"

#include <algorithm>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include "core/dtype.h"
#include "core/excerpt.h"
#include "core/json_util.h"
#include "core/resource_exhausted.h"
#include "engine/format.h"
#include "pack/n16k4.h"

namespace slipstream::engine {
namespace {

using core::JsonReader;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
// Far beyond any model, small enough that a product of two such numbers and an element size fits 63
// bits.
constexpr int64_t kMaxDimension = int64_t{1} << 30;
constexpr int64_t kMaxDimensions = 8;

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

int32_t Int32(JsonReader& reader, const char* key, int64_t min, int64_t max = kMaxInt32) {
  return static_cast<int32_t>(reader.Int(key, min, max));
}

std::vector<int32_t> Int32s(JsonReader& reader, const char* key, int64_t min) {
  const std::vector<int64_t> values = reader.Ints(key, min, kMaxInt32);
  return {values.begin(), values.end()};
}

void ReadIdentity(JsonReader& reader, Manifest& m) {
  JsonReader format = reader.Object("format");
  m.format.major = Int32(format, "major", 0, 65535);
  m.format.minor = Int32(format, "minor", 0, 65535);
  m.build_id = reader.String("build_id");
  if (!IsHex(m.build_id, 32)) reader.Fail("build_id", "must be 32 lower-case hex digits");
  JsonReader producer = reader.Object("producer");
  m.producer = {producer.String("name"), producer.String("version")};
  m.required_features = reader.Strings("required_features");
  m.optional_features = reader.Strings("optional_features");
  JsonReader model = reader.Object("model");
  m.model_name = model.String("name");
  m.architecture = model.String("architecture");
  m.family = model.String("family");
  m.model_config_json = model.Value("config").dump();
  m.weights_version = reader.UInt("weights_version");
}

void ReadConfiguration(JsonReader& reader, Manifest& m) {
  JsonReader config = reader.Object("config");
  m.requested_config_json = config.Value("requested").dump();
  m.resolved_config_json = config.Value("resolved").dump();
  config.Objects("changes", [&m](JsonReader& change) {
    m.config_changes.push_back({change.String("field"), change.Value("from").dump(),
                                change.Value("to").dump(), change.String("reason")});
  });
  JsonReader limits = reader.Object("limits");
  m.limits.max_seq_len = Int32(limits, "max_seq_len", 1, kMaxDimension);
  m.limits.max_batch_size = Int32(limits, "max_batch_size", 1, kMaxDimension);
  m.limits.max_num_tokens = Int32(limits, "max_num_tokens", 1, kMaxDimension);
  m.limits.vocab_size = Int32(limits, "vocab_size", 1, kMaxDimension);
  m.numerics = reader.String("numerics");
  JsonReader quantization = reader.Object("quantization");
  m.quantization = {quantization.String("weights"), quantization.String("kv_cache")};
  JsonReader memory = reader.Object("memory");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  m.memory.weights_bytes = memory.Int("weights_bytes", 0, kMax);
  m.memory.arena_bytes = memory.Int("arena_bytes", 0, kMax);
  m.memory.arena_lower_bound_bytes = memory.Int("arena_lower_bound_bytes", 0, kMax);
  m.memory.kv_bytes_per_token = memory.Int("kv_bytes_per_token", 0, kMax);
  const auto section_of = [&m](JsonReader& owner) {
    std::string name = owner.String("section");
    if (owner.ok() && m.FindSection(name) == nullptr) {
      owner.Fail("section", "names \"" + core::NameExcerpt(name) + "\", which does not exist");
    }
    return name;
  };
  reader.Objects("targets", [&](JsonReader& element) {
    Target target;
    target.name = element.String("name");
    // A target has one plan, or one for each of its segments.
    if (element.Has("segments")) {
      element.Objects("segments", [&](JsonReader& segment) { section_of(segment); });
    } else {
      target.section = section_of(element);
    }
    m.targets.push_back(std::move(target));
  });
  JsonReader parallel = reader.Object("parallel");
  m.parallel.tp = Int32(parallel, "tp", 1);
  m.parallel.rank = Int32(parallel, "rank", 0);
  JsonReader tokenizer = reader.Object("tokenizer");
  m.tokenizer_section = tokenizer.String("section");
  m.bos_token_id = Int32(tokenizer, "bos_token_id", -1);
  m.eos_token_ids = Int32s(tokenizer, "eos_token_ids", 0);
  if (reader.ok() && m.FindSection(m.tokenizer_section) == nullptr) {
    tokenizer.Fail("section", "names \"" + core::NameExcerpt(m.tokenizer_section) +
                                  "\", which does not exist");
  }
}

/// The groups that this version runs have one block size; anything else would be read out of bounds
/// later.
void CheckKvGroup(JsonReader& reader, const KvGroup& group) {
  const auto dtype = core::ParseKvDType(group.dtype);
  const bool known = dtype && (group.kind == "full" || group.kind == "window");
  if (!reader.ok() || !known || group.scale_granularity != core::KvScaleGranularity(*dtype)) return;
  if (group.layers.empty()) reader.Fail("layers", "must not be empty");
  if (group.kv_heads < 1) reader.Fail("kv_heads", "must be at least 1");
  if (group.head_dim < 1) reader.Fail("head_dim", "must be at least 1");
  if (group.kind == "window" && group.window < 1) {
    reader.Fail("window", "must be at least 1 in a window group");
  }
  // Of a token of one head, then of all of them.
  int64_t bytes =
      2 * (int64_t{group.head_dim} * core::DTypeSize(*dtype) + core::KvScaleBytes(*dtype));
  for (int64_t factor :
       {static_cast<int64_t>(group.layers.size()), static_cast<int64_t>(group.kv_heads),
        static_cast<int64_t>(group.block_tokens)}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) {
      reader.Fail("bytes_per_block",
                  "is not what layers, heads and head_dim ask for: they overflow");
      return;
    }
  }
  if (bytes != group.bytes_per_block) {
    reader.Fail("bytes_per_block", "is " + std::to_string(group.bytes_per_block) +
                                       ", but layers, heads, head_dim and dtype ask for " +
                                       std::to_string(bytes));
  }
}

void ReadKvGroups(JsonReader& reader, Manifest& m) {
  JsonReader kv = reader.Object("kv");
  kv.Objects("groups", [&m](JsonReader& element) {
    KvGroup group;
    group.kind = element.String("kind");
    group.layers = Int32s(element, "layers", 0);
    group.bytes_per_block = element.Int("bytes_per_block", 1, std::numeric_limits<int64_t>::max());
    group.block_tokens = Int32(element, "block_tokens", 1, kMaxDimension);
    group.dtype = element.String("dtype");
    group.scale_granularity = element.String("scale_granularity");
    group.window = Int32(element, "window", 0);
    group.kv_heads = Int32(element, "kv_heads", 0, kMaxDimension);
    group.head_dim = Int32(element, "head_dim", 0, kMaxDimension);
    CheckKvGroup(element, group);
    m.kv_groups.push_back(std::move(group));
  });
}

void ReadSections(JsonReader& reader, uint64_t manifest_offset, Manifest& m) {
  uint64_t expected = kSectionAlignment;  // The header and its padding.
  std::set<std::string> names;
  reader.Objects("sections", [&](JsonReader& element) {
    Section section;
    section.name = element.String("name");
    section.offset = element.UInt("offset");
    section.size = element.UInt("size");
    section.hash = element.String("hash");
    if (!element.ok()) return;
    if (section.name.empty()) element.Fail("name", "is empty");
    if (!names.insert(section.name).second) {
      element.Fail("name", "\"" + core::NameExcerpt(section.name) + "\" appears twice");
    }
    if (section.offset != expected) {
      element.Fail("offset", "is " + std::to_string(section.offset) + ", expected " +
                                 std::to_string(expected) +
                                 " (the end of the section before, "
                                 "rounded up to 4096)");
    } else if (section.offset > manifest_offset ||
               section.size > manifest_offset - section.offset) {
      element.Fail("size", "is " + std::to_string(section.size) +
                               ": the section would reach over the manifest at byte " +
                               std::to_string(manifest_offset));
    } else {
      expected = AlignUp(section.offset + section.size, kSectionAlignment);
    }
    const bool hashed = section.name != kWeightsSection;
    if (hashed ? !IsHex(section.hash, 32) : !section.hash.empty()) {
      element.Fail("hash", hashed ? "must be 32 lower-case hex digits"
                                  : "must be empty: weight_hashes holds the hashes of weights");
    }
    m.sections.push_back(std::move(section));
  });
  if (reader.ok() && expected != manifest_offset) {
    reader.Fail("sections", "end at byte " + std::to_string(expected) +
                                ", but the manifest starts at byte " +
                                std::to_string(manifest_offset));
  }
}

void ReadVerification(JsonReader& reader, Manifest& m) {
  JsonReader verification = reader.Object("verification");
  m.verification.algorithm = verification.String("algorithm");
  m.verification.chunk_bytes =
      static_cast<uint64_t>(verification.Int("chunk_bytes", 1, kMaxChunkBytes));
  m.verification.section = verification.String("section");
  if (!reader.ok() || m.verification.algorithm != kHashAlgorithm) return;
  const Section* weights = m.FindSection(kWeightsSection);
  const Section* hashes = m.FindSection(m.verification.section);
  if (weights == nullptr) {
    reader.Fail("sections", "hold no \"weights\"");
  } else if (hashes == nullptr || hashes == weights) {
    verification.Fail("section", "names \"" + core::NameExcerpt(m.verification.section) +
                                     "\", which is no section that could hold hashes");
  } else {
    const uint64_t chunks = weights->size / m.verification.chunk_bytes +
                            (weights->size % m.verification.chunk_bytes != 0);
    if (hashes->size % kHashSize != 0 || hashes->size / kHashSize != chunks) {
      verification.Fail("section", "\"" + core::NameExcerpt(hashes->name) + "\" has " +
                                       std::to_string(hashes->size) + " bytes; " +
                                       std::to_string(chunks) + " chunks of weights need 16 each");
    }
  }
}

/// Sizes of the formats and layouts that this version knows; the kernels rely on them.
void CheckTensorSize(JsonReader& reader, const Tensor& tensor) {
  const auto dtype = core::ParseDType(tensor.format);
  if (!reader.ok() || !dtype) return;
  const auto wrong_size = [&](uint64_t expected) {
    reader.Fail("size", "of \"" + core::NameExcerpt(tensor.name) + "\" is " +
                            std::to_string(tensor.size) +
                            "; its shape, format and layout ask for " + std::to_string(expected));
  };
  if (tensor.layout == "row_major") {
    uint64_t bytes = static_cast<uint64_t>(core::DTypeSize(*dtype));
    for (int64_t dimension : tensor.logical_shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) {
        reader.Fail("logical_shape", "of \"" + core::NameExcerpt(tensor.name) + "\" overflows");
        return;
      }
    }
    // A bias is a vector that is padded like the rows of its matrix: whole blocks beyond the shape
    // are fine.
    const bool padded_vector = tensor.logical_shape.size() == 1 && tensor.size > bytes &&
                               tensor.size % (16 * core::DTypeSize(*dtype)) == 0;
    if (tensor.size != bytes && !padded_vector) wrong_size(bytes);
    return;
  }
  if (tensor.layout != "n16k4") return;
  if (tensor.logical_shape.size() != 2) {
    reader.Fail("logical_shape",
                "of \"" + core::NameExcerpt(tensor.name) + "\" must be [N, K] in layout n16k4");
    return;
  }
  const Result<int64_t> units = pack::N16K4Units(*dtype, tensor.logical_shape[1]);
  const Result<int64_t> padded = pack::N16K4PaddedRows(tensor.logical_shape[0]);
  if (!units.ok() || !padded.ok()) {
    reader.Fail("logical_shape", "of \"" + core::NameExcerpt(tensor.name) + "\" is out of range");
    return;
  }
  // Every segment is padded by itself, so there may be more rows than the padded sum, but only
  // whole blocks.
  const uint64_t row_bytes = static_cast<uint64_t>(*units) * pack::kN16K4UnitBytes;
  const uint64_t block_bytes = row_bytes * pack::kN16K4Rows;
  const uint64_t packed_rows = tensor.size / row_bytes;
  if (tensor.size % block_bytes != 0 || packed_rows < static_cast<uint64_t>(*padded)) {
    wrong_size(static_cast<uint64_t>(*padded) * row_bytes);
    return;
  }
  for (const TensorSource& source : tensor.sources) {
    if (source.offset % pack::kN16K4Rows != 0 ||
        static_cast<uint64_t>(source.offset) >= packed_rows) {
      reader.Fail("sources", "of \"" + core::NameExcerpt(tensor.name) + "\" start segment \"" +
                                 core::NameExcerpt(source.segment) + "\" at packed row " +
                                 std::to_string(source.offset) +
                                 "; it must be a multiple of 16 below " +
                                 std::to_string(packed_rows));
      return;
    }
  }
}

Tensor ReadTensor(JsonReader& element) {
  Tensor tensor;
  tensor.name = element.String("name");
  tensor.format = element.String("format");
  tensor.layout = element.String("layout");
  tensor.logical_shape = element.Ints("logical_shape", 1, kMaxDimension);
  tensor.offset = element.UInt("offset");
  tensor.size = element.UInt("size");
  const nlohmann::json& scales = element.Value("scales");
  if (!scales.is_array()) element.Fail("scales", "must be an array");
  tensor.has_scales = !scales.empty();
  tensor.has_shard = !element.Value("shard").is_null();
  tensor.updatable = element.Bool("updatable");
  if (!element.IsNull("updatable_reason")) {
    tensor.updatable_reason = element.String("updatable_reason");
  }
  element.Objects("sources", [&tensor](JsonReader& reader) {
    TensorSource source;
    source.checkpoint_name = reader.String("checkpoint_name");
    source.dims = reader.Ints("dims", 0, std::numeric_limits<int64_t>::max());
    source.segment = reader.String("segment");
    source.offset = reader.Int("offset", 0, std::numeric_limits<int64_t>::max());
    source.transforms = reader.Strings("transforms");
    tensor.sources.push_back(std::move(source));
  });
  return tensor;
}

void ReadTensors(JsonReader& reader, Manifest& m) {
  const Section* weights = m.FindSection(kWeightsSection);
  const uint64_t weights_size = weights == nullptr ? 0 : weights->size;
  uint64_t end = 0;
  std::set<std::string> names;
  reader.Objects("tensors", [&](JsonReader& element) {
    Tensor tensor = ReadTensor(element);
    if (!element.ok()) return;
    if (!names.insert(tensor.name).second) {
      element.Fail("name", "\"" + core::NameExcerpt(tensor.name) + "\" appears twice");
    }
    const auto rank = static_cast<int64_t>(tensor.logical_shape.size());
    if (rank < 1 || rank > kMaxDimensions) {
      element.Fail("logical_shape",
                   "of \"" + core::NameExcerpt(tensor.name) + "\" must have 1 to 8 dimensions");
    }
    if (tensor.offset % kTensorAlignment != 0) {
      element.Fail("offset", "of \"" + core::NameExcerpt(tensor.name) + "\" is " +
                                 std::to_string(tensor.offset) + "; it must be a multiple of 256");
    }
    if (tensor.offset < end) {
      element.Fail("offset", "of \"" + core::NameExcerpt(tensor.name) + "\" is " +
                                 std::to_string(tensor.offset) +
                                 ", inside the tensor before, which ends at " +
                                 std::to_string(end));
    }
    if (tensor.offset > weights_size || tensor.size > weights_size - tensor.offset) {
      element.Fail("size", "of \"" + core::NameExcerpt(tensor.name) + "\" is " +
                               std::to_string(tensor.size) +
                               ": it would reach over the end of the weights section (" +
                               std::to_string(weights_size) + " bytes)");
    }
    CheckTensorSize(element, tensor);
    if (!element.ok()) return;
    end = tensor.offset + tensor.size;
    m.tensors.push_back(std::move(tensor));
  });
}

Result<Manifest> Parse(std::string_view text, uint64_t manifest_offset) {
  const core::JsonLimits limits{.max_bytes = kMaxManifestSize, .max_depth = 64};
  const Result<core::JsonTree> json = core::ParseJson(text, "the manifest", limits);
  if (!json.ok()) {
    const StatusCode code = json.status().code() == StatusCode::kInvalidArgument
                                ? StatusCode::kCorruptFile
                                : json.status().code();
    return Status(code, json.status().message());
  }
  JsonReader reader(*json, "the manifest", StatusCode::kCorruptFile);
  Manifest manifest;
  ReadIdentity(reader, manifest);
  ReadSections(reader, manifest_offset, manifest);
  ReadConfiguration(reader, manifest);
  ReadKvGroups(reader, manifest);
  ReadVerification(reader, manifest);
  ReadTensors(reader, manifest);
  if (!reader.ok()) return reader.status();
  return manifest;
}

template <class T>
const T* FindByName(const std::vector<T>& values, std::string_view name) {
  for (const T& value : values) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

}  // namespace

const Section* Manifest::FindSection(std::string_view name) const {
  return FindByName(sections, name);
}
const Tensor* Manifest::FindTensor(std::string_view name) const {
  return FindByName(tensors, name);
}
const Target* Manifest::FindTarget(std::string_view name) const {
  return FindByName(targets, name);
}

Result<Manifest> ParseManifest(std::string_view json, uint64_t manifest_offset) {
  try {
    return Parse(json, manifest_offset);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while reading the manifest.");
  }
}

}  // namespace slipstream::engine
