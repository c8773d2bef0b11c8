// The public Engine: the file together with its tokenizer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "engine_test_file.h"
#include "slipstream/engine.h"

namespace slipstream {
namespace {

constexpr char kTokenizer[] = R"({
  "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
  "added_tokens": [{"id": 3, "content": "<end>", "special": true, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

class EngineTest : public testing::Test {
 protected:
  std::string path_ =
      testing::TempDir() + "engine_load_test_" + std::to_string(getpid()) + ".engine";
  void TearDown() override { std::remove(path_.c_str()); }
  void Write(const std::string& tokenizer, const std::string& chat_template = "{{ x }}") {
    engine::TestFileOptions options;
    options.tokenizer = tokenizer;
    options.chat_template = chat_template;
    engine::WriteBytes(path_, engine::WriteTestFile(options).bytes);
  }
};

TEST_F(EngineTest, GivesWhatTheFileHoldsAndStaysAliveInCopies) {
  Write(kTokenizer);
  std::optional<Engine> copy;
  {
    auto loaded = Engine::Load(path_, Verify::kFull);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    copy = *loaded;
  }
  std::remove(path_.c_str());
  EXPECT_EQ(copy->path(), path_);
  EXPECT_EQ(copy->model_name(), "tiny");
  EXPECT_EQ(copy->build_id(), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(nlohmann::json::parse(copy->manifest_json())["limits"]["max_seq_len"], 64);
  EXPECT_EQ(copy->limits().max_batch_size, 4);
  EXPECT_EQ(copy->chat_template(), "{{ x }}");
  EXPECT_EQ(copy->tokenizer_config_json(), "{}");
  EXPECT_EQ(copy->generation_config_json(), "{}");
  EXPECT_EQ(copy->eos_token_ids(), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(copy->bos_token_id(), 1);
  auto ids = copy->tokenizer().Encode("aab<end>");
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(*ids, (std::vector<TokenId>{0, 2, 3}));
}

TEST_F(EngineTest, AModelWithoutChatTemplateHasAnEmptyOne) {
  Write(kTokenizer, "");
  auto loaded = Engine::Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->chat_template(), "");
}

TEST_F(EngineTest, ATokenizerThatCannotRunIsNamedWithTheFile) {
  Write(R"({"model": {"type": "NoSuchModel", "vocab": []}})");
  auto loaded = Engine::Load(path_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kIncompatible);
  EXPECT_EQ(loaded.status().message().rfind(path_ + " carries a tokenizer", 0), 0u);
  EXPECT_NE(loaded.status().message().find("NoSuchModel"), std::string::npos)
      << loaded.status().message();
}

TEST_F(EngineTest, DamageIsFoundBeforeTheTokenizerIsRead) {
  engine::TestFile file = engine::WriteTestFile();
  file.bytes[4096] ^= 1;
  engine::WriteBytes(path_, file.bytes);
  EXPECT_EQ(Engine::Load(path_).status().code(), StatusCode::kCorruptFile);
  EXPECT_EQ(Engine::Load(path_ + ".missing").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace slipstream
