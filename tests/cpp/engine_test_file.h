// Writes small engine files for tests, independent of the builder and of the reader under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sha256.h"
#include "pack/hash.h"

namespace slipstream::engine {

/// A half-open range of bytes of the file.
struct Region {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool Contains(uint64_t at) const { return at >= begin && at < end; }
};

struct TestFile {
  std::string bytes;
  Region weights;
  Region manifest;
};

struct TestFileOptions {
  uint64_t weights_size = 3 * 4096 + 512 + 100;
  uint64_t chunk_bytes = 4096;
  std::string tokenizer = R"({"model":{"type":"BPE"}})";
  std::string chat_template = "{{ messages }}";  ///< Empty: no such section.
  std::string tokenizer_config = "{}";
  std::string plan;     ///< Of the CPU; empty: a plan that cannot run.
  std::string weights;  ///< Empty: `weights_size` random bytes.
  /// Last change of the manifest, after everything in it is right.
  std::function<void(nlohmann::json&)> edit = [](nlohmann::json&) {};
};

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

template <class T>
void StoreAt(std::string& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

inline void PadTo(std::string& bytes, size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
}

inline nlohmann::json TestTensor(const std::string& name, const char* layout,
                                 std::vector<int64_t> shape, uint64_t offset, uint64_t size) {
  return {{"name", name},
          {"format", "f32"},
          {"layout", layout},
          {"logical_shape", shape},
          {"offset", offset},
          {"size", size},
          {"scales", nlohmann::json::array()},
          {"shard", nullptr},
          {"updatable", true},
          {"updatable_reason", ""},
          {"sources",
           {{{"checkpoint_name", name},
             {"dims", shape},
             {"segment", ""},
             {"offset", 0},
             {"transforms", nlohmann::json::array()}}}}};
}

inline nlohmann::json TestManifest() {
  return nlohmann::json::parse(R"({
    "format": {"major": 1, "minor": 0},
    "build_id": "0123456789abcdef0123456789abcdef",
    "producer": {"name": "slipstream", "version": "0.1.0"},
    "required_features": [], "optional_features": [],
    "model": {"name": "tiny", "architecture": "LlamaForCausalLM", "family": "llama",
              "config": {"hidden_size": 8}},
    "config": {"requested": {"weights": "f32"}, "resolved": {"weights": "f32"},
               "changes": [{"field": "max_seq_len", "from": null, "to": 64, "reason": "small"}]},
    "limits": {"max_seq_len": 64, "max_batch_size": 4, "max_num_tokens": 32, "vocab_size": 100},
    "numerics": "cpu-numerics/1",
    "quantization": {"weights": "f32", "kv_cache": "f32"},
    "kv": {"groups": [{"kind": "full", "layers": [0, 1], "bytes_per_block": 4096,
                       "block_tokens": 32, "dtype": "f32", "scale_granularity": "none",
                       "window": 0, "kv_heads": 2, "head_dim": 4}]},
    "memory": {"weights_bytes": 1, "arena_bytes": 2, "arena_lower_bound_bytes": 2,
               "kv_bytes_per_token": 128},
    "targets": [{"name": "cpu", "section": "plan.cpu"}],
    "parallel": {"tp": 1, "rank": 0},
    "tokenizer": {"section": "tokenizer", "bos_token_id": 1, "eos_token_ids": [2, 3]},
    "verification": {"algorithm": "xxh3_128", "chunk_bytes": 0, "section": "weight_hashes"},
    "weights_version": 0
  })");
}

inline TestFile WriteTestFile(const TestFileOptions& options = {}) {
  std::mt19937_64 random(7);
  std::string weights(options.weights_size, '\0');
  for (char& byte : weights) byte = static_cast<char>(random());
  if (!options.weights.empty()) weights = options.weights;
  std::string hashes;
  for (uint64_t at = 0; at < weights.size(); at += options.chunk_bytes) {
    const auto hash =
        pack::Xxh3_128(BytesOf(std::string_view(weights).substr(at, options.chunk_bytes)));
    hashes.append(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
  }
  std::vector<std::pair<std::string, std::string>> sections = {
      {"graph", R"({"nodes":[]})"},
      {"plan.cpu",
       options.plan.empty() ? R"({"version":1})" + std::string(5000, ' ') : options.plan},
      {"tokenizer", options.tokenizer},
      {"tokenizer_config", options.tokenizer_config},
      {"generation_config", "{}"},
      {"weight_hashes", hashes},
      {"weights", weights}};
  if (!options.chat_template.empty()) {
    sections.insert(sections.begin() + 4, {"chat_template", options.chat_template});
  }

  TestFile file;
  nlohmann::json manifest = TestManifest();
  manifest["verification"]["chunk_bytes"] = options.chunk_bytes;
  manifest["sections"] = nlohmann::json::array();
  file.bytes.assign(128, '\0');
  for (const auto& [name, content] : sections) {
    PadTo(file.bytes, 4096);
    const bool hashed = name != "weights";
    manifest["sections"].push_back(
        {{"name", name},
         {"offset", file.bytes.size()},
         {"size", content.size()},
         {"hash", hashed ? pack::Xxh3_128(BytesOf(content)).Hex() : ""}});
    if (!hashed) file.weights = {file.bytes.size(), file.bytes.size() + content.size()};
    file.bytes += content;
  }
  PadTo(file.bytes, 4096);
  manifest["tensors"] = {TestTensor("embed", "row_major", {10, 8}, 0, 320),
                         TestTensor("linear", "n16k4", {20, 8}, 512, 1024)};
  options.edit(manifest);

  const std::string text = manifest.dump();
  const uint64_t offset = file.bytes.size();
  file.manifest = {offset, offset + text.size()};
  file.bytes += text;
  std::memcpy(file.bytes.data(), "\x89SLE\r\n\x1a\n", 8);
  StoreAt<uint16_t>(file.bytes, 8, 1);
  StoreAt<uint16_t>(file.bytes, 10, 0);
  StoreAt<uint32_t>(file.bytes, 12, 128);
  StoreAt<uint64_t>(file.bytes, 16, file.bytes.size());
  StoreAt<uint64_t>(file.bytes, 24, offset);
  StoreAt<uint64_t>(file.bytes, 32, text.size());
  const auto digest = core::Sha256(BytesOf(text));
  std::memcpy(file.bytes.data() + 40, digest.data(), digest.size());
  return file;
}

/// Writes `bytes` to a file under the test's temporary folder and returns its path.
inline std::string WriteBytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace slipstream::engine
