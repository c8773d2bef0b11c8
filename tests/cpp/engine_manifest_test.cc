#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "engine/compatibility.h"
#include "engine/engine_file.h"
#include "engine/manifest.h"
#include "engine_test_file.h"

namespace slipstream::engine {
namespace {

using nlohmann::json;
using Edit = std::function<void(json&)>;

/// The manifest of a test file after `edit`, parsed as the loader does.
Result<Manifest> ParseEdited(const Edit& edit) {
  TestFileOptions options;
  options.edit = edit;
  const TestFile file = WriteTestFile(options);
  return ParseManifest(file.bytes.substr(file.manifest.begin), file.manifest.begin);
}

void ExpectRefused(const Edit& edit, const std::string& part) {
  const auto manifest = ParseEdited(edit);
  ASSERT_FALSE(manifest.ok()) << "expected: " << part;
  EXPECT_EQ(manifest.status().code(), StatusCode::kCorruptFile);
  EXPECT_NE(manifest.status().message().find(part), std::string::npos)
      << manifest.status().message();
}

TEST(Manifest, EveryKeyOfTheSchemaIsNeeded) {
  const json good = TestManifest();
  for (const auto& [key, value] : good.items()) {
    ExpectRefused([&key = key](json& m) { m.erase(key); }, key);
    if (!value.is_object() || key == "model") continue;
    for (const auto& [inner, unused] : value.items()) {
      ExpectRefused([&key = key, &inner = inner](json& m) { m[key].erase(inner); },
                    key + "." + inner);
    }
  }
  for (const char* key : {"name", "format", "layout", "logical_shape", "offset", "size", "scales",
                          "shard", "updatable", "updatable_reason", "sources"}) {
    ExpectRefused([key](json& m) { m["tensors"][1].erase(key); }, std::string("tensors[1].") + key);
  }
  for (const char* key : {"kind", "layers", "bytes_per_block", "block_tokens", "dtype",
                          "scale_granularity", "window", "kv_heads", "head_dim"}) {
    ExpectRefused([key](json& m) { m["kv"]["groups"][0].erase(key); },
                  std::string("kv.groups[0].") + key);
  }
}

TEST(Manifest, SectionsAreInOrderWithoutOverlapOrHole) {
  ExpectRefused([](json& m) { m["sections"][1]["offset"] = 4096; }, "sections[1].offset is 4096");
  ExpectRefused([](json& m) { m["sections"][1]["offset"] = 8193; }, "expected 8192");
  ExpectRefused([](json& m) { m["sections"][0]["size"] = 4097; }, "sections[1].offset");
  ExpectRefused([](json& m) { m["sections"].back()["size"] = int64_t{1} << 40; },
                "reach over the manifest");
  ExpectRefused([](json& m) { m["sections"].back()["size"] = INT64_MAX; },
                "reach over the manifest");
  ExpectRefused([](json& m) { m["sections"].erase(7); }, "end at byte");
  ExpectRefused([](json& m) { m["sections"][1]["name"] = "graph"; }, "\"graph\" appears twice");
  ExpectRefused([](json& m) { m["sections"][0]["hash"] = "abc"; }, "sections[0].hash");
  ExpectRefused([](json& m) { m["sections"].back()["hash"] = std::string(32, 'a'); },
                "must be empty");
}

TEST(Manifest, TensorsFitTheirShapeAndSection) {
  ExpectRefused([](json& m) { m["tensors"][1]["offset"] = 256; }, "inside the tensor before");
  ExpectRefused([](json& m) { m["tensors"][1]["offset"] = 520; }, "multiple of 256");
  ExpectRefused([](json& m) { m["tensors"][1]["offset"] = int64_t{1} << 40; },
                "reach over the end");
  ExpectRefused([](json& m) { m["tensors"][1]["size"] = 512; }, "ask for 1024");
  ExpectRefused([](json& m) { m["tensors"][1]["size"] = 1025; }, "ask for 1024");
  ExpectRefused([](json& m) { m["tensors"][0]["size"] = 316; }, "ask for 320");
  ExpectRefused([](json& m) { m["tensors"][1]["name"] = "embed"; }, "appears twice");
  ExpectRefused([](json& m) { m["tensors"][1]["logical_shape"] = {20}; }, "must be [N, K]");
  ExpectRefused([](json& m) { m["tensors"][1]["logical_shape"] = json::array(); }, "1 to 8");
  ExpectRefused(
      [](json& m) {
        m["tensors"][1]["logical_shape"] = {20, 0};
      },
      "logical_shape[1] is 0");
  ExpectRefused([](json& m) { m["tensors"][0]["logical_shape"] = json(8, 1 << 30); }, "overflows");
  ExpectRefused([](json& m) { m["tensors"][1]["sources"][0]["offset"] = 8; }, "packed row 8");
  ExpectRefused([](json& m) { m["tensors"][1]["sources"][0]["offset"] = 32; }, "below 32");
}

TEST(Manifest, PaddedBiasAndSegmentsAreFine) {
  const auto manifest = ParseEdited([](json& m) {
    m["tensors"][0] = TestTensor("bias", "row_major", {20}, 0, 128);
    // Two segments of 4 rows are padded to 16 each.
    m["tensors"][1] = TestTensor("two", "n16k4", {8, 8}, 512, 1024);
    m["tensors"][1]["sources"].push_back(m["tensors"][1]["sources"][0]);
    m["tensors"][1]["sources"][1]["offset"] = 16;
  });
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->tensors[1].sources[1].offset, 16);
}

TEST(Manifest, AnInt8CacheCountsItsScales) {
  const auto int8 = [](json& m, const char* granularity, int64_t bytes) {
    json& group = m["kv"]["groups"][0];
    const int64_t rows = 2 * static_cast<int64_t>(group["layers"].size()) *
                         group["kv_heads"].get<int64_t>() * group["block_tokens"].get<int64_t>();
    group["dtype"] = "int8";
    group["scale_granularity"] = granularity;
    group["bytes_per_block"] = rows * (group["head_dim"].get<int64_t>() + 4) + bytes;
  };
  const auto manifest = ParseEdited([&](json& m) { int8(m, "token_head", 0); });
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_TRUE(CheckCompatibility(*manifest).empty());
  ExpectRefused([&](json& m) { int8(m, "token_head", -4); }, "bytes_per_block");
  // Another granularity is another layout: not judged by this one's sizes, but refused.
  const auto other = ParseEdited([&](json& m) { int8(m, "none", 7); });
  ASSERT_TRUE(other.ok()) << other.status().message();
  ASSERT_EQ(CheckCompatibility(*other).size(), 1u);
}

TEST(Manifest, ATargetMayHaveSeveralPlans) {
  const auto manifest = ParseEdited([](json& m) {
    m["targets"].push_back(
        {{"name", "tensorrt_rtx"}, {"sm", 89}, {"segments", {{{"section", "graph"}}}}});
  });
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->FindTarget("cpu")->section, "plan.cpu");
  EXPECT_TRUE(CheckCompatibility(*manifest).empty());
  ExpectRefused(
      [](json& m) {
        m["targets"].push_back({{"name", "gpu"}});
      },
      "targets[1].section is missing");
  ExpectRefused(
      [](json& m) {
        m["targets"].push_back({{"name", "gpu"}, {"segments", {{{"section", "plan.gpu.0"}}}}});
      },
      "targets[1].segments[0].section names \"plan.gpu.0\"");
  const auto without = ParseEdited([](json& m) {
    m["targets"][0] = {{"name", "cpu"}, {"segments", json::array()}};
  });
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(CheckCompatibility(*without).size(), 1u);
}

TEST(Manifest, NumbersAgreeWithEachOther) {
  ExpectRefused([](json& m) { m["kv"]["groups"][0]["bytes_per_block"] = 4095; }, "ask for 4096");
  ExpectRefused([](json& m) { m["kv"]["groups"][0]["head_dim"] = 1 << 30; }, "bytes_per_block");
  ExpectRefused([](json& m) { m["kv"]["groups"][0]["kind"] = "window"; }, "window");
  ExpectRefused([](json& m) { m["kv"]["groups"][0]["layers"] = json::array(); }, "layers");
  ExpectRefused([](json& m) { m["verification"]["chunk_bytes"] = 8192; }, "chunks of weights");
  ExpectRefused([](json& m) { m["verification"]["chunk_bytes"] = 0; }, "chunk_bytes");
  ExpectRefused([](json& m) { m["verification"]["section"] = "weights"; }, "could hold hashes");
  ExpectRefused([](json& m) { m["targets"][0]["section"] = "plan.gpu"; }, "does not exist");
  ExpectRefused([](json& m) { m["tokenizer"]["section"] = "nowhere"; }, "does not exist");
  ExpectRefused([](json& m) { m["limits"]["max_seq_len"] = 0; }, "limits.max_seq_len is 0");
  ExpectRefused([](json& m) { m["build_id"] = "xyz"; }, "build_id");
}

std::string Incompatibilities(const Edit& edit, size_t* count) {
  const auto manifest = ParseEdited(edit);
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  if (!manifest.ok()) return {};
  const auto mismatches = CheckCompatibility(*manifest);
  *count = mismatches.size();
  return CompatibilityStatus("m.engine", mismatches).message();
}

TEST(Compatibility, ASoundFileHasNoMismatch) {
  size_t count = 1;
  EXPECT_EQ(Incompatibilities([](json&) {}, &count), "");
  EXPECT_EQ(count, 0u);
}

TEST(Compatibility, EachMismatchIsNamedWithAFix) {
  const std::pair<Edit, const char*> cases[] = {
      {[](json& m) { m["required_features"] = {"mamba"}; }, "feature \"mamba\""},
      {[](json& m) { m["numerics"] = "cpu-numerics/2"; }, "\"cpu-numerics/2\""},
      {[](json& m) { m["targets"] = json::array(); }, "no plan for the target cpu"},
      {[](json& m) { m["parallel"]["tp"] = 2; }, "tp = 2"},
      {[](json& m) { m["tensors"][0]["format"] = "nvfp4"; }, "the format \"nvfp4\""},
      {[](json& m) { m["tensors"][0]["layout"] = "n32k8"; }, "the layout \"n32k8\""},
      {[](json& m) { m["tensors"][0]["scales"] = {"s"}; }, "use scales"},
      {[](json& m) {
         m["tensors"][0]["shard"] = {{"axis", 0}};
       },
       "use shards"},
      {[](json& m) { m["kv"]["groups"][0]["kind"] = "latent"; }, "\"latent\""},
      {[](json& m) { m["kv"]["groups"][0]["dtype"] = "fp8"; }, "holds \"fp8\""},
      {[](json& m) { m["kv"]["groups"][0]["scale_granularity"] = "token_head"; }, "\"token_head\""},
      {[](json& m) {
         m["kv"]["groups"][0]["block_tokens"] = 64;
         m["kv"]["groups"][0]["bytes_per_block"] = 8192;
       },
       "blocks of 64 tokens"},
      {[](json& m) { m["kv"]["groups"] = json::array(); }, "no KV cache group"},
      {[](json& m) { m["verification"]["algorithm"] = "blake3"; }, "\"blake3\""},
      {[](json& m) { m["quantization"]["weights"] = "int4"; }, "weights are \"int4\""},
      {[](json& m) { m["quantization"]["kv_cache"] = "fp8"; }, "KV cache is \"fp8\""},
  };
  for (const auto& [edit, part] : cases) {
    size_t count = 0;
    const std::string message = Incompatibilities(edit, &count);
    EXPECT_EQ(count, 1u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("Fix: "), std::string::npos) << message;
  }
}

TEST(Compatibility, ListsEverythingAtOnceBeforeAnythingIsLoaded) {
  TestFileOptions options;
  options.edit = [](json& m) {
    m["required_features"] = {"a", "b"};
    m["numerics"] = "other";
    m["parallel"]["tp"] = 8;
    m["kv"]["groups"][0]["kind"] = "state";
    m["sections"][0]["hash"] = std::string(32, '0');  // Found only if sections were read.
  };
  const std::string path =
      WriteBytes(testing::TempDir() + "compatibility_test_" + std::to_string(getpid()) + ".engine",
                 WriteTestFile(options).bytes);
  const Status status = EngineFile::Load(path, Verify::kFull).status();
  std::remove(path.c_str());
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  for (const char* part : {"\"a\"", "\"b\"", "\"other\"", "tp = 8", "\"state\""}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(Compatibility, FullCheckOfUnknownHashesIsRefusedNotGuessed) {
  TestFileOptions options;
  options.edit = [](json& m) {
    m["verification"]["algorithm"] = "blake3";
    m["verification"]["section"] = "graph";
  };
  const std::string path =
      WriteBytes(testing::TempDir() + "blake3_test_" + std::to_string(getpid()) + ".engine",
                 WriteTestFile(options).bytes);
  auto file = EngineFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->Verify(Verify::kDefault).ok());
  const Status full = (*file)->Verify(Verify::kFull);
  std::remove(path.c_str());
  EXPECT_EQ(full.code(), StatusCode::kIncompatible);
  EXPECT_NE(full.message().find("blake3"), std::string::npos);
}

/// Every string and every key below `value`, one after the other, replaced by `text` for a call of
/// `each`.
void ForEachString(json& value, const std::string& text, const std::function<void()>& each) {
  if (value.is_string()) {
    const json before = value;
    value = text;
    each();
    value = before;
    return;
  }
  if (!value.is_structured()) return;
  for (auto& item : value) ForEachString(item, text, each);
}

TEST(Manifest, NoStringInItFloodsAMessage) {
  TestFileOptions options;
  json manifest;
  options.edit = [&manifest](json& m) {
    m["required_features"] = {"a feature"};
    m["targets"][0]["name"] = "gpu";
    m["tensors"][0]["format"] = "int3";
    manifest = m;
  };
  const TestFile file = WriteTestFile(options);
  std::string text;
  while (text.size() < 100'000) text += "\xC3\xBC";
  int refused = 0;
  const auto check = [&] {
    const auto parsed = ParseManifest(manifest.dump(), file.manifest.begin);
    const Status status = parsed.ok() ? CompatibilityStatus("x.engine", CheckCompatibility(*parsed))
                                      : parsed.status();
    ASSERT_FALSE(status.ok());
    EXPECT_LT(status.message().size(), 1500u) << status.message().substr(0, 2000);
    EXPECT_EQ(json(status.message()).dump().find("\\ufffd"), std::string::npos);
    ++refused;
  };
  ForEachString(manifest, text, check);
  EXPECT_GT(refused, 40);
}

TEST(Compatibility, AThousandMismatchesFitOnAScreen) {
  const auto manifest = ParseEdited([](json& m) {
    for (int i = 0; i < 1000; ++i) {
      m["required_features"].push_back("feature " + std::to_string(i));
      m["targets"].push_back({{"name", "gpu" + std::to_string(i)}, {"section", "graph"}});
    }
    m["targets"].erase(0);
  });
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  const std::string message =
      CompatibilityStatus("x.engine", CheckCompatibility(*manifest)).message();
  EXPECT_LT(message.size(), 5000u);
  EXPECT_NE(message.find("feature 19"), std::string::npos);
  EXPECT_EQ(message.find("feature 20"), std::string::npos);
  EXPECT_NE(message.find("and 981 more"), std::string::npos) << message;
}

}  // namespace
}  // namespace slipstream::engine
