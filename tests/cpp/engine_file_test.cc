#include "engine/engine_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "engine/weight_store.h"
#include "engine_test_file.h"

namespace slipstream::engine {
namespace {

class EngineFileTest : public testing::Test {
 protected:
  std::string path_ =
      testing::TempDir() + "engine_file_test_" + std::to_string(getpid()) + ".engine";
  void TearDown() override { std::remove(path_.c_str()); }

  Status LoadStatus(std::string_view bytes, slipstream::Verify verify = Verify::kDefault) {
    return EngineFile::Load(WriteBytes(path_, bytes), verify).status();
  }
  void ExpectMessage(const Status& status, StatusCode code,
                     std::initializer_list<const char*> parts) {
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(path_), std::string::npos) << status.message();
    for (const char* part : parts) {
      EXPECT_NE(status.message().find(part), std::string::npos)
          << "\"" << part << "\" is not in: " << status.message();
    }
  }
};

TEST_F(EngineFileTest, ReadsEverythingOfASoundFile) {
  const TestFile written = WriteTestFile();
  WriteBytes(path_, written.bytes);
  for (slipstream::Verify verify : {Verify::kDefault, Verify::kFull}) {
    auto loaded = EngineFile::Load(path_, verify);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const EngineFile& file = **loaded;
    const Manifest& m = file.manifest();
    EXPECT_EQ(file.path(), path_);
    EXPECT_EQ(file.size(), written.bytes.size());
    EXPECT_EQ(file.manifest_json(),
              written.bytes.substr(written.manifest.begin, written.bytes.size()));
    EXPECT_EQ(m.model_name, "tiny");
    EXPECT_EQ(m.family, "llama");
    EXPECT_EQ(m.model_config_json, R"({"hidden_size":8})");
    EXPECT_EQ(m.resolved_config_json, R"({"weights":"f32"})");
    ASSERT_EQ(m.config_changes.size(), 1u);
    EXPECT_EQ(m.config_changes[0].from, "null");
    EXPECT_EQ(m.config_changes[0].to, "64");
    EXPECT_EQ(m.limits.vocab_size, 100);
    EXPECT_EQ(m.eos_token_ids, (std::vector<TokenId>{2, 3}));
    EXPECT_EQ(m.kv_groups[0].layers, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(m.memory.kv_bytes_per_token, 128);
    ASSERT_NE(m.FindTensor("linear"), nullptr);
    EXPECT_EQ(m.FindTensor("linear")->logical_shape, (std::vector<int64_t>{20, 8}));
    EXPECT_EQ(m.FindTensor("nothing"), nullptr);
    EXPECT_EQ(file.SectionText("graph"), R"({"nodes":[]})");
    EXPECT_EQ(file.SectionText("chat_template"), "{{ messages }}");
    EXPECT_TRUE(file.SectionBytes("nothing").empty());
  }
}

TEST_F(EngineFileTest, WeightStoreGivesTheTensorsBytesAndOutlivesTheHandle) {
  const TestFile written = WriteTestFile();
  WriteBytes(path_, written.bytes);
  std::shared_ptr<const WeightStore> store;
  {
    auto file = EngineFile::Load(path_, Verify::kDefault);
    ASSERT_TRUE(file.ok());
    auto mapped = MapWeights(*file);
    ASSERT_TRUE(mapped.ok());
    store = *mapped;
  }
  std::remove(path_.c_str());  // The mapping keeps the file.
  auto view = store->Find("linear");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->tensor->size, 1024u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 256, 0u);
  EXPECT_EQ(std::memcmp(view->data, written.bytes.data() + written.weights.begin + 512, 1024), 0);
  auto missing = store->Find("lm_head");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("\"lm_head\""), std::string::npos);
  EXPECT_EQ(store->version(), 0u);
}

TEST_F(EngineFileTest, WhatCannotBeOpened) {
  ExpectMessage(EngineFile::Load(path_, Verify::kDefault).status(), StatusCode::kNotFound,
                {"no such file"});
  ExpectMessage(LoadStatus(""), StatusCode::kCorruptFile, {"is empty"});
  ExpectMessage(LoadStatus("PK\3\4 some other file"), StatusCode::kCorruptFile,
                {"not a Slipstream engine file", "50 4b 03 04", "build-engine"});
  const auto directory = EngineFile::Load(testing::TempDir(), Verify::kDefault);
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(directory.status().message().find("is a directory"), std::string::npos);
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(EngineFile::Load(pipe, Verify::kDefault).status().code(), StatusCode::kInvalidArgument);
  std::remove(pipe.c_str());
}

TEST_F(EngineFileTest, MessagesSayWhatWasExpectedAndFound) {
  const TestFile good = WriteTestFile();
  const auto with = [&good](size_t at, char value) {
    std::string bytes = good.bytes;
    bytes[at] = value;
    return bytes;
  };
  const std::string fix = "Rebuild it or copy it again";
  ExpectMessage(LoadStatus(good.bytes.substr(0, 20000)), StatusCode::kCorruptFile,
                {"the file has 20000 bytes", "it is cut", fix.c_str()});
  ExpectMessage(LoadStatus(good.bytes.substr(0, 100)), StatusCode::kCorruptFile,
                {"it has 100 bytes", "128"});
  ExpectMessage(LoadStatus(good.bytes + "x"), StatusCode::kCorruptFile, {"its header says"});
  ExpectMessage(LoadStatus(with(8, 2)), StatusCode::kIncompatible,
                {"format 2.0", "reads format 1"});
  ExpectMessage(LoadStatus(with(10, 1)), StatusCode::kCorruptFile, {"format 1.1", "1.0"});
  ExpectMessage(LoadStatus(with(100, 9)), StatusCode::kCorruptFile,
                {"byte 100 of the header is 9, expected 0"});
  ExpectMessage(LoadStatus(with(4096, 'X')), StatusCode::kCorruptFile,
                {"section graph (bytes 4096 to", "XXH3-128", "expected", fix.c_str()});
  ExpectMessage(LoadStatus(with(4095, 1)), StatusCode::kCorruptFile,
                {"byte 4095 of the padding after the header is 1"});
  ExpectMessage(LoadStatus(with(good.weights.end + 3, 1)), StatusCode::kCorruptFile,
                {"padding after the section weights"});
  ExpectMessage(LoadStatus(with(good.manifest.begin + 5, '!')), StatusCode::kCorruptFile,
                {"the manifest has sha256", "expected"});
  ExpectMessage(LoadStatus(with(good.weights.begin + 5000, '!'), Verify::kFull),
                StatusCode::kCorruptFile,
                {"chunk 1 of the weights", "XXH3-128", "expected", fix.c_str()});
  std::string text_mode = good.bytes;
  text_mode.erase(4, 1);
  ExpectMessage(LoadStatus(text_mode), StatusCode::kCorruptFile, {"line ends were converted"});
}

TEST_F(EngineFileTest, HigherMinorIsReadWithoutUnknownRequiredFeatures) {
  TestFileOptions options;
  options.edit = [](nlohmann::json& m) {
    m["format"]["minor"] = 9;
    m["something_new"] = {{"deep", {1, 2, 3}}};
    m["optional_features"] = {"nice-to-have"};
  };
  std::string bytes = WriteTestFile(options).bytes;
  StoreAt<uint16_t>(bytes, 10, 9);
  const Status status = LoadStatus(bytes, Verify::kFull);
  EXPECT_TRUE(status.ok()) << status.message();
}

/// Resident bytes of this process' mapping of `path`.
int64_t ResidentBytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) inside = true;
    if (inside && line.rfind("Rss:", 0) == 0) return std::stoll(line.substr(4)) * 1024;
  }
  return -1;
}

TEST_F(EngineFileTest, LoadTouchesNoWeightPage) {
  TestFileOptions options;
  options.weights_size = 32 << 20;
  options.chunk_bytes = 1 << 20;
  WriteBytes(path_, WriteTestFile(options).bytes);
  auto file = EngineFile::Load(path_, Verify::kDefault);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(MapWeights(*file).ok());
  // The kernel maps up to a large folio (2 MiB) around a touched page on its own: at the start and
  // at the end of the file.
  const int64_t resident = ResidentBytes(path_);
  EXPECT_GE(resident, 0);
  EXPECT_LT(resident, 8 << 20);
  ASSERT_TRUE((*file)->Verify(Verify::kFull).ok());
  EXPECT_GT(ResidentBytes(path_), 30 << 20);
}

}  // namespace
}  // namespace slipstream::engine
