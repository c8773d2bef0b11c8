// A small byte-level tokenizer as JSON, for tests to change and to load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "slipstream/text.h"
#include "text/byte_alphabet.h"

namespace slipstream::text {

using Json = nlohmann::json;

/// All 256 bytes as ids 0 to 255, then one token for each merge. A merge is two plain byte strings.
inline Json SmallTokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[SpellBytes(std::string(1, static_cast<char>(byte)))] = byte;
  Json list = Json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    list.push_back({SpellBytes(left), SpellBytes(right)});
    const std::string merged = SpellBytes(left + right);
    if (!vocab.contains(merged)) vocab[merged] = next++;
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", list}}}};
}

inline Json Added(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

}  // namespace slipstream::text
