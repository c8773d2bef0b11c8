// A whole engine file of a tiny random model with a tokenizer and a chat template: what the public
// API needs to run from a path to text, without the builder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "engine_test_file.h"
#include "exec_tiny_model.h"

namespace slipstream {

/// Byte-level BPE: the id of a printable ASCII character is its code - 33, two merges follow.
inline std::string TinyTokenizerJson() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int c = 33; c < 127; ++c) vocab[std::string(1, static_cast<char>(c))] = c - 33;
  vocab["\u0120"] = 94;  // the blank of the byte alphabet
  vocab["ab"] = 95;
  vocab["abc"] = 96;
  const auto special = [](int id, const char* text) {
    return nlohmann::json{
        {"id", id},        {"content", text}, {"special", true},    {"single_word", false},
        {"lstrip", false}, {"rstrip", false}, {"normalized", false}};
  };
  const nlohmann::json bytes = {{"type", "ByteLevel"},
                                {"add_prefix_space", false},
                                {"trim_offsets", true},
                                {"use_regex", true}};
  const nlohmann::json tokenizer = {{"version", "1.0"},
                                    {"truncation", nullptr},
                                    {"padding", nullptr},
                                    {"normalizer", nullptr},
                                    {"added_tokens", {special(97, "<s>"), special(98, "</s>")}},
                                    {"pre_tokenizer", bytes},
                                    {"post_processor", nullptr},
                                    {"decoder", bytes},
                                    {"model",
                                     {{"type", "BPE"},
                                      {"dropout", nullptr},
                                      {"unk_token", nullptr},
                                      {"continuing_subword_prefix", nullptr},
                                      {"end_of_word_suffix", nullptr},
                                      {"fuse_unk", false},
                                      {"byte_fallback", false},
                                      {"vocab", vocab},
                                      {"merges", {"a b", "ab c"}}}}};
  return tokenizer.dump();
}

/// What a tiny engine file says beside its model.
struct TinyTexts {
  std::string chat_template =
      "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}<s>assistant:{% endif %}";
  std::string tokenizer_config = "{}";
  TokenId bos_token_id = 97;  ///< "<s>"; -1 for none.
};

/// The bytes of an engine file of TinyModel(config, seed).
inline std::string TinyEngineBytes(const exec::TinyConfig& config = {}, uint32_t seed = 1,
                                   const TinyTexts& texts = {}) {
  const exec::TinyModel model(config, seed);
  engine::TestFileOptions options;
  options.plan = model.plan.dump();
  options.tokenizer = TinyTokenizerJson();
  options.chat_template = texts.chat_template;
  options.tokenizer_config = texts.tokenizer_config;
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& [name, entry] : model.weights->tensors) {
    const auto& [tensor, bytes] = entry;
    engine::PadTo(options.weights, 256);
    nlohmann::json listed = engine::TestTensor(name, tensor.layout.c_str(), tensor.logical_shape,
                                               options.weights.size(), bytes.size());
    listed["format"] = tensor.format;
    tensors.push_back(std::move(listed));
    options.weights.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  options.edit = [&](nlohmann::json& manifest) {
    manifest["tensors"] = tensors;
    manifest["model"]["name"] = "tiny-" + std::to_string(seed);
    manifest["limits"] = {{"max_seq_len", config.max_seq_len},
                          {"max_batch_size", config.max_outputs},
                          {"max_num_tokens", config.max_tokens},
                          {"vocab_size", config.vocab}};
    manifest["tokenizer"] = {
        {"section", "tokenizer"}, {"bos_token_id", texts.bos_token_id}, {"eos_token_ids", {98}}};
    manifest["kv"]["groups"] = nlohmann::json::array();
    for (const engine::KvGroup& group : model.manifest.kv_groups) {
      manifest["kv"]["groups"].push_back({{"kind", group.kind},
                                          {"layers", group.layers},
                                          {"bytes_per_block", group.bytes_per_block},
                                          {"block_tokens", group.block_tokens},
                                          {"dtype", group.dtype},
                                          {"scale_granularity", "none"},
                                          {"window", group.window},
                                          {"kv_heads", group.kv_heads},
                                          {"head_dim", group.head_dim}});
    }
  };
  return engine::WriteTestFile(options).bytes;
}

/// A temporary engine file, removed at the end of its life.
class TinyEngineFile {
 public:
  explicit TinyEngineFile(const std::string& name, uint32_t seed = 1,
                          const exec::TinyConfig& config = {}, const TinyTexts& texts = {})
      : path_(engine::WriteBytes(
            testing::TempDir() + name + "_" + std::to_string(getpid()) + ".engine",
            TinyEngineBytes(config, seed, texts))) {}
  ~TinyEngineFile() { std::remove(path_.c_str()); }
  TinyEngineFile(const TinyEngineFile&) = delete;
  TinyEngineFile& operator=(const TinyEngineFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace slipstream
