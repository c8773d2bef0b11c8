// Files that are refused: every unsupported component by its JSON path and value, and hostile files
// without a crash.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "text_test_util.h"

namespace slipstream::text {
namespace {

Status LoadText(const std::string& text) { return Tokenizer::FromJson(text).status(); }

struct Case {
  const char* name;
  std::function<void(Json&)> change;
  std::vector<const char*> expected;  // parts of the message
};

const std::vector<Case>& Cases() {
  static const auto* const kCases = new std::vector<Case>{
      {"model kind", [](Json& j) { j["model"]["type"] = "Odd"; }, {"model.type", "Odd", "BPE"}},
      {"unigram with an object",
       [](Json& j) { j["model"]["type"] = "Unigram"; },
       {"model.vocab must be an array"}},
      {"no model", [](Json& j) { j.erase("model"); }, {"model"}},
      {"model is a list", [](Json& j) { j["model"] = Json::array(); }, {"model"}},
      {"no vocab", [](Json& j) { j["model"].erase("vocab"); }, {"model.vocab"}},
      {"vocab is a list", [](Json& j) { j["model"]["vocab"] = Json::array(); }, {"model.vocab"}},
      {"no merges", [](Json& j) { j["model"].erase("merges"); }, {"model.merges"}},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.5; }, {"model.dropout", "0.5"}},
      {"prefix of a wrong type",
       [](Json& j) { j["model"]["continuing_subword_prefix"] = 5; },
       {"continuing_subword_prefix", "5"}},
      {"suffix of a wrong type",
       [](Json& j) { j["model"]["end_of_word_suffix"] = Json::array(); },
       {"end_of_word_suffix"}},
      {"byte fallback of a wrong type",
       [](Json& j) { j["model"]["byte_fallback"] = "yes"; },
       {"model.byte_fallback", "yes"}},
      {"flag of a wrong type",
       [](Json& j) { j["model"]["ignore_merges"] = 1; },
       {"model.ignore_merges", "1"}},
      {"unk", [](Json& j) { j["model"]["unk_token"] = "<none>"; }, {"model.unk_token", "<none>"}},
      {"negative id", [](Json& j) { j["model"]["vocab"]["x"] = -1; }, {"model.vocab", "'x'", "-1"}},
      {"huge id",
       [](Json& j) { j["model"]["vocab"]["x"] = 4000000000u; },
       {"model.vocab", "4000000000"}},
      {"id above int64",
       [](Json& j) { j["model"]["vocab"]["x"] = 18446744073709551615u; },
       {"out of range"}},
      {"fractional id", [](Json& j) { j["model"]["vocab"]["x"] = 1.5; }, {"expected an integer"}},
      {"id as text", [](Json& j) { j["model"]["vocab"]["x"] = "1"; }, {"model.vocab['x']"}},
      {"same id twice", [](Json& j) { j["model"]["vocab"]["x"] = 5; }, {"model.vocab", "id 5"}},
      {"merge of unknown",
       [](Json& j) {
         j["model"]["merges"].push_back({"a", "zz"});
       },
       {"model.merges[1]", "'zz'"}},
      {"merge into unknown",
       [](Json& j) {
         j["model"]["merges"].push_back({"a", "c"});
       },
       {"model.merges[1]", "'ac'"}},
      {"merge of one", [](Json& j) { j["model"]["merges"].push_back({"a"}); }, {"model.merges[1]"}},
      {"merge of three",
       [](Json& j) {
         j["model"]["merges"].push_back({"a", "b", "c"});
       },
       {"model.merges[1]"}},
      {"merge without space",
       [](Json& j) { j["model"]["merges"].push_back("ab"); },
       {"model.merges[1]"}},
      {"merge with two spaces",
       [](Json& j) { j["model"]["merges"].push_back("a b c"); },
       {"model.merges[1]"}},
      {"merge is a number",
       [](Json& j) { j["model"]["merges"].push_back(7); },
       {"expected a string"}},
      {"version", [](Json& j) { j["version"] = "2.0"; }, {"version", "2.0"}},
      {"normalizer",
       [](Json& j) {
         j["normalizer"] = {{"type", "Odd"}};
       },
       {"normalizer", "Odd", "NFC"}},
      {"charsmap",
       [](Json& j) {
         j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
       },
       {"normalizer.precompiled_charsmap", "too short"}},
      {"normalizers",
       [](Json& j) {
         j["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}}}}};
       },
       {"normalizer.normalizers[0].prepend", "null"}},
      {"pre-tokenizer",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Odd"}};
       },
       {"pre_tokenizer", "Odd", "ByteLevel"}},
      {"Metaspace",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}};
       },
       {"pre_tokenizer.replacement", "ab", "one character"}},
      {"ByteLevel twice",
       [](Json& j) {
         const Json byte_level = j["pre_tokenizer"];
         j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {byte_level, byte_level}}};
       },
       {"pre_tokenizer.pretokenizers[1]", "may occur once"}},
      {"Digits without its flag",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Digits"}};
       },
       {"pre_tokenizer.individual_digits"}},
      {"unknown construct",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "(?<=a+)b"}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
       },
       {"pre_tokenizer.pattern.Regex", "(?<=a+)b", "supported are"}},
      {"behaviour",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"String", "x"}}},
                               {"behavior", "Odd"},
                               {"invert", false}};
       },
       {"pre_tokenizer.behavior", "Odd"}},
      {"empty literal",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"String", ""}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
       },
       {"pre_tokenizer.pattern"}},
      {"BERT",
       [](Json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 1}}};
       },
       {"post_processor.cls", "null"}},
      {"template without ids",
       [](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}},
                                {"special_tokens", Json::object()}};
       },
       {"post_processor.single[0]", "<s>"}},
      {"template with a foreign id",
       [](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}},
                                {"special_tokens", {{"<s>", {{"ids", {70000}}}}}}};
       },
       {"post_processor", "70000"}},
      {"decoder",
       [](Json& j) {
         j["decoder"] = {{"type", "CTC"}};
       },
       {"decoder", "CTC", "ByteLevel"}},
      {"Metaspace decoder",
       [](Json& j) {
         j["decoder"] = {{"type", "Metaspace"}};
       },
       {"decoder.replacement", "null"}},
      {"added id",
       [](Json& j) { j["added_tokens"] = {Added(300, "<s>")}; },
       {"added_tokens", "'<s>'", "300", "257"}},
      {"added id of the model",
       [](Json& j) { j["added_tokens"] = {Added(3, "ab")}; },
       {"added_tokens", "'ab'", "256"}},
      {"negative added id",
       [](Json& j) { j["added_tokens"] = {Added(-1, "<s>")}; },
       {"added_tokens[0].id", "-1"}},
      {"added without flags",
       [](Json& j) {
         j["added_tokens"] = {{{"id", 257}, {"content", "x"}}};
       },
       {"added_tokens[0]"}},
      {"added is a number", [](Json& j) { j["added_tokens"] = {5}; }, {"added_tokens[0]", "5"}},
      {"added is an object", [](Json& j) { j["added_tokens"] = Json::object(); }, {"added_tokens"}},
  };
  return *kCases;
}

TEST(TokenizerErrors, NameThePathAndTheValue) {
  ASSERT_TRUE(LoadText(SmallTokenizer({{"a", "b"}}).dump()).ok());
  for (const Case& c : Cases()) {
    Json json = SmallTokenizer({{"a", "b"}});
    c.change(json);
    const Status status = LoadText(json.dump());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.name;
    for (const char* part : c.expected) {
      EXPECT_NE(status.message().find(part), std::string::npos)
          << c.name << ": " << status.message();
    }
    EXPECT_LT(status.message().size(), 1000u) << c.name;
  }
}

TEST(TokenizerErrors, TextsThatAreNotATokenizer) {
  for (const std::string& text : std::vector<std::string>{
           "", "{", "[]", "null", "{}", "{\"model\":", "\xFF\xFE", "{\"model\":{}}",
           "{\"model\":{\"vocab\":{}}}", "{\"model\":{},\"model\":{}}", std::string(500000, '['),
           std::string(500000, '{'), "{\"model\":" + std::string(500000, '[')}) {
    EXPECT_EQ(LoadText(text).code(), StatusCode::kInvalidArgument) << text.substr(0, 40);
  }
  const std::string good = SmallTokenizer({}).dump();
  EXPECT_FALSE(LoadText(good + "x").ok());
  Json deep = SmallTokenizer({});
  Json nested = deep["pre_tokenizer"];
  for (int i = 0; i < 200; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", {nested}}};
  deep["pre_tokenizer"] = nested;
  EXPECT_NE(LoadText(deep.dump()).message().find("64 levels"), std::string::npos);
}

TEST(TokenizerErrors, AnEmptyModelIsSound) {
  Json json = SmallTokenizer({});
  json["model"]["vocab"] = Json::object();
  const Result<Tokenizer> tokenizer = Tokenizer::FromJson(json.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->vocab_size(), 0);
  EXPECT_TRUE(tokenizer->Encode("abc")->empty());
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{0, 1}), "");
}

// Damaged files either load or are refused; what loads must also work. The sanitizer builds give
// this its edge.
TEST(TokenizerErrors, DamagedFilesNeverCrash) {
  Json json = SmallTokenizer({{"a", "b"}, {" ", "ab"}});
  json["added_tokens"] = {Added(258, "<s>"), Added(259, "<t>", false)};
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", " ?[a-f]+(?!x)|\\p{L}{1,3}|\\s+"}}},
                              {"behavior", "MergedWithNext"},
                              {"invert", false}},
                             json["pre_tokenizer"]}}};
  // The vocabulary is most of the text; keep few bytes, so that damage often meets the rest.
  for (int byte = 0; byte < 256; ++byte) {
    const bool keep = byte >= 'a' && byte <= 'f';
    if (!keep && byte != ' ')
      json["model"]["vocab"].erase(SpellBytes(std::string(1, static_cast<char>(byte))));
  }
  json["added_tokens"][0]["id"] = json["model"]["vocab"].size();
  json["added_tokens"][1]["id"] = json["model"]["vocab"].size() + 1;
  const std::string good = json.dump();
  ASSERT_TRUE(LoadText(good).ok()) << LoadText(good).message();
  std::mt19937 random(21);
  const std::string alphabet = "{}[]\",:\\-0123456789eEtfnu.abAB \n\xC3\xFF(?|)*+";
  int loaded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          text.insert(at, good, random() % good.size(), random() % 60);
          break;
      }
      if (text.empty()) text.assign(1, '{');
    }
    const Result<Tokenizer> tokenizer = Tokenizer::FromJson(text);
    if (!tokenizer.ok()) continue;
    ++loaded;
    const Result<std::vector<TokenId>> ids = tokenizer->Encode("<s> abc\xC3\xA9 ab<t>fed  x");
    if (ids.ok()) tokenizer->Decode(*ids);
  }
  EXPECT_GT(loaded, 100);
  for (size_t size = 0; size < good.size(); size += 7)
    EXPECT_FALSE(LoadText(good.substr(0, size)).ok());
}

}  // namespace
}  // namespace slipstream::text
