// The manifest of an engine file as C++ values. docs/design/engine-file.md is the schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/engine.h"
#include "slipstream/status.h"

namespace slipstream::engine {

struct Section {
  std::string name;
  uint64_t offset = 0;  ///< From the start of the file, 4096-aligned.
  uint64_t size = 0;
  std::string hash;     ///< 32 hex digits of XXH3-128; empty for the weights section (its chunks are hashed).
};

struct TensorSource {
  std::string checkpoint_name;
  std::vector<int64_t> dims;   ///< As in the checkpoint.
  std::string segment;         ///< "q", "k", "v", "gate", "up", or "" for the whole.
  int64_t offset = 0;          ///< First packed row of the segment.
};

struct Tensor {
  std::string name;
  std::string format;   ///< "f32", "f16", "bf16".
  std::string layout;   ///< "row_major" or "n16k4".
  std::vector<int64_t> logical_shape;  ///< [N, K] with N the sum of the segments' rows, or [N].
  uint64_t offset = 0;  ///< From the start of the weights section, 256-aligned.
  uint64_t size = 0;
  std::vector<TensorSource> sources;
};

struct KvGroup {
  std::string kind;  ///< "full" or "window" run here; "latent" and "state" are refused with a clear message.
  std::vector<int32_t> layers;
  int64_t bytes_per_block = 0;
  int32_t block_tokens = 32;
  std::string dtype;  ///< "f32", "f16", "bf16".
  int32_t window = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
};

struct Manifest {
  std::string format;
  std::string build_id;
  std::string model_name;
  std::string architecture;
  std::string numerics;
  EngineLimits limits;
  std::vector<KvGroup> kv_groups;
  std::vector<Section> sections;
  std::vector<Tensor> tensors;
  std::vector<std::string> required_features;
  uint64_t weights_version = 0;
  int32_t bos_token_id = -1;
  std::vector<TokenId> eos_token_ids;

  const Section* FindSection(std::string_view name) const;
  const Tensor* FindTensor(std::string_view name) const;
};

/// Parses and checks every field: types, ranges, sorted non-overlapping sections inside `file_size`, tensors inside their section.
Result<Manifest> ParseManifest(std::string_view json, uint64_t file_size);

}  // namespace slipstream::engine
