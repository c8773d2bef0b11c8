// The manifest of an engine file as C++ values. docs/design/engine-file.md is the schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/engine.h"
#include "slipstream/status.h"

namespace slipstream::engine {

struct FormatVersion {
  int32_t major = 0;
  int32_t minor = 0;
};

struct Producer {
  std::string name;
  std::string version;
};

struct Section {
  std::string name;
  uint64_t offset = 0;  ///< From the start of the file, 4096-aligned.
  uint64_t size = 0;
  std::string
      hash;  ///< 32 hex digits of XXH3-128; empty for the weights section (its chunks are hashed).
};

struct TensorSource {
  std::string checkpoint_name;
  std::vector<int64_t> dims;            ///< As in the checkpoint.
  std::string segment;                  ///< "q", "k", "v", "gate", "up", or "" for the whole.
  int64_t offset = 0;                   ///< First packed row of the segment.
  std::vector<std::string> transforms;  ///< Names of what was applied on the way, in order.
};

struct Tensor {
  std::string name;
  std::string format;  ///< "f32", "f16", "bf16"; others are refused by the compatibility check.
  std::string layout;  ///< "row_major" or "n16k4"; others likewise.
  std::vector<int64_t> logical_shape;  ///< [N, K] with N the sum of the segments' rows, or [N].
  uint64_t offset = 0;                 ///< From the start of the weights section, 256-aligned.
  uint64_t size = 0;                   ///< In bytes, padding rows included.
  bool has_scales = false;  ///< `scales` is not empty; no format of this version has any.
  bool has_shard = false;   ///< `shard` is not null; only tp = 1 runs here.
  bool updatable = false;
  std::string updatable_reason;  ///< Why not, when `updatable` is false.
  std::vector<TensorSource> sources;
};

struct KvGroup {
  std::string kind;  ///< "full" or "window" run here; "latent" and "state" are refused with a clear
                     ///< message.
  std::vector<int32_t> layers;
  int64_t bytes_per_block = 0;
  int32_t block_tokens = 32;
  std::string dtype;              ///< "f32", "f16", "bf16", "int8".
  std::string scale_granularity;  ///< "none" for float KV, "token_head" for int8.
  int32_t window = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
};

struct ConfigChange {
  std::string field;
  std::string from;  ///< JSON text.
  std::string to;    ///< JSON text.
  std::string reason;
};

struct Quantization {
  std::string weights;
  std::string kv_cache;
};

/// Bytes, as the memory planner of the build computed them.
struct MemoryPlan {
  int64_t weights_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t arena_lower_bound_bytes = 0;
  int64_t kv_bytes_per_token = 0;
};

struct Target {
  std::string name;     ///< "cpu".
  std::string section;  ///< "plan.cpu"; empty for a target whose plans are its segments'.
};

struct Parallel {
  int32_t tp = 1;
  int32_t rank = 0;
};

struct Verification {
  std::string algorithm;
  uint64_t chunk_bytes = 0;
  std::string section;  ///< Holds the hashes of the chunks of `weights`.
};

struct Manifest {
  FormatVersion format;
  std::string build_id;  ///< 32 hex digits.
  Producer producer;
  std::vector<std::string> required_features;
  std::vector<std::string> optional_features;
  std::string model_name;
  std::string architecture;
  std::string family;
  std::string model_config_json;      ///< The checkpoint's config.json, canonical.
  std::string requested_config_json;  ///< What the builder was asked for.
  std::string resolved_config_json;   ///< What it became.
  std::vector<ConfigChange> config_changes;
  EngineLimits limits;
  std::string numerics;
  Quantization quantization;
  std::vector<KvGroup> kv_groups;
  MemoryPlan memory;
  std::vector<Target> targets;
  Parallel parallel;
  std::string tokenizer_section;
  int32_t bos_token_id = -1;  ///< -1: none.
  std::vector<TokenId> eos_token_ids;
  Verification verification;
  uint64_t weights_version = 0;
  std::vector<Section> sections;
  std::vector<Tensor> tensors;  ///< Sorted by offset.

  const Section* FindSection(std::string_view name) const;
  /// Linear; WeightStore::Find has an index.
  const Tensor* FindTensor(std::string_view name) const;
  const Target* FindTarget(std::string_view name) const;
};

/// Parses the manifest and checks every field that this version reads: types, ranges, sections in
/// order without overlap or hole up to `manifest_offset`, tensors in order inside the weights
/// section, sizes that fit shape, format and layout. Names that a newer version may add (formats,
/// layouts, cache kinds, features) pass; compatibility.h refuses them. Errors: kCorruptFile with
/// the path of the field, kResourceExhausted (out of memory).
Result<Manifest> ParseManifest(std::string_view json, uint64_t manifest_offset);

}  // namespace slipstream::engine
