// Tokenizer and StreamDecoder on small tokenizers whose ids can be worked out by hand. Equality
// with Hugging Face on real ones is tested in tests/python/test_tokenizer_parity.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "text/utf8.h"
#include "text_test_util.h"

namespace slipstream::text {
namespace {

using Ids = std::vector<TokenId>;

Tokenizer Load(const Json& json) {
  Result<Tokenizer> tokenizer = Tokenizer::FromJson(json.dump());
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return *tokenizer;
}

Ids Encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  Result<Ids> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : Ids{-1};
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  // ids: ab 256, bc 257, abc 258, aa 259
  const Tokenizer tokenizer =
      Load(SmallTokenizer({{"a", "b"}, {"b", "c"}, {"a", "bc"}, {"a", "a"}}));
  EXPECT_EQ(Encode(tokenizer, "abc"), (Ids{256, 'c'}));  // ab comes first, and ab+c is no merge
  EXPECT_EQ(Encode(tokenizer, "bc"), (Ids{257}));
  EXPECT_EQ(Encode(tokenizer, "aaa"), (Ids{259, 'a'}));
  EXPECT_EQ(Encode(tokenizer, "aaab"), (Ids{259, 256}));
  EXPECT_EQ(Encode(tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer.vocab_size(), 260);
  EXPECT_EQ(tokenizer.IdToToken(256), "ab");
  EXPECT_EQ(tokenizer.IdToToken(' '), "\xC4\xA0");
  EXPECT_EQ(tokenizer.IdToToken(260), "");
  EXPECT_EQ(tokenizer.IdToToken(-1), "");
  EXPECT_EQ(tokenizer.TokenToId("abc"), 258);
  EXPECT_EQ(tokenizer.TokenToId("nothing"), -1);
  EXPECT_EQ(tokenizer.TokenToId("\xFF"), -1);
}

TEST(Tokenizer, IgnoreMergesTakesWholeWords) {
  Json json = SmallTokenizer({{"a", "b"}, {"b", "c"}, {"a", "bc"}});
  json["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(Encode(tokenizer, "abc"), (Ids{258}));
  EXPECT_EQ(Encode(tokenizer, "abcx"), (Ids{256, 'c', 'x'}));
}

TEST(Tokenizer, ReadsBothSpellingsOfMergesInAnyOrderOfSections) {
  Json json = SmallTokenizer({{" ", "a"}, {"a", "b"}});
  const Ids expected = Encode(Load(json), " ab a");
  Json legacy = json;
  for (Json& merge : legacy["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  legacy["model"]["merges"].insert(legacy["model"]["merges"].begin(), "#version: 0.2");
  EXPECT_EQ(Encode(Load(legacy), " ab a"),
            expected);  // dump() sorts keys: merges stand before vocab
  const std::string model = "{\"type\":\"BPE\",\"vocab\":" + json["model"]["vocab"].dump() +
                            ",\"merges\":" + json["model"]["merges"].dump() + "}";
  json.erase("model");
  std::string text = json.dump();
  text.insert(1, "\"model\":" + model + ",");
  const Result<Tokenizer> reordered = Tokenizer::FromJson(text);
  ASSERT_TRUE(reordered.ok()) << reordered.status().message();
  EXPECT_EQ(Encode(*reordered, " ab a"), expected);
}

// The loop for short words and the queue for long ones are the same function.
TEST(Tokenizer, LongWordsMergeLikeShortOnes) {
  std::mt19937 random(5);
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> tokens = {"a", "b", "c"};
  for (int i = 0; i < 40; ++i) {
    const std::string left = tokens[random() % tokens.size()];
    const std::string right = tokens[random() % tokens.size()];
    const std::pair<std::string, std::string> merge{left, right};
    if (left.size() + right.size() > 12 ||
        std::find(merges.begin(), merges.end(), merge) != merges.end())
      continue;
    merges.push_back(merge);
    tokens.push_back(left + right);
  }
  const Tokenizer tokenizer = Load(SmallTokenizer(merges));
  for (int round = 0; round < 200; ++round) {
    std::string word;
    for (size_t n = 1 + random() % 120; n > 0; --n) word += "abc"[random() % 3];
    // The definition: repeat with the lowest-ranked pair of neighbours, the leftmost of equals.
    std::vector<std::string> parts;
    for (const char c : word) parts.emplace_back(1, c);
    while (true) {
      size_t best = 0;
      size_t best_rank = merges.size();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const size_t rank =
            std::find(merges.begin(), merges.end(), std::pair(parts[i], parts[i + 1])) -
            merges.begin();
        if (rank < best_rank) best = i, best_rank = rank;
      }
      if (best_rank == merges.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    Ids expected;
    for (const std::string& part : parts) expected.push_back(tokenizer.TokenToId(part));
    ASSERT_EQ(Encode(tokenizer, word), expected) << word;
    ASSERT_EQ(Encode(tokenizer, word), expected) << word << " again, with what was learnt";
  }
}

TEST(Tokenizer, UnknownBytes) {
  Json json = SmallTokenizer({{"a", "b"}});
  for (const char* missing : {"x", "y"}) json["model"]["vocab"].erase(missing);
  EXPECT_EQ(Encode(Load(json), "axyb"),
            (Ids{256}));  // without unk_token they vanish, and the rest may merge
  json["model"]["vocab"]["<unk>"] = 257;
  json["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(Encode(Load(json), "axyb"), (Ids{'a', 257, 257, 'b'}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(Encode(Load(json), "axyb"), (Ids{'a', 257, 'b'}));
}

TEST(Tokenizer, AddedTokens) {
  Json json = SmallTokenizer({});
  Json word = Added(258, "ab", false);
  word["single_word"] = true;
  Json strip = Added(259, "<m>", false);
  strip["lstrip"] = strip["rstrip"] = true;
  json["added_tokens"] = {Added(256, "<s>"), Added(257, "<s>>"), word, strip};
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(Encode(tokenizer, "<s>x<s>>"), (Ids{256, 'x', 257}));  // leftmost, longest
  EXPECT_EQ(Encode(tokenizer, "ab abc ab"), (Ids{258, ' ', 'a', 'b', 'c', ' ', 258}));
  EXPECT_EQ(Encode(tokenizer, "x \n<m>\t y"), (Ids{'x', 259, 'y'}));
  EXPECT_EQ(Encode(tokenizer, "<s>ab", {.parse_special_tokens = false}), (Ids{'<', 's', '>', 258}));
  EXPECT_EQ(Encode(tokenizer, "<s> ab", {.parse_special_tokens = false}),
            (Ids{'<', 's', '>', ' ', 258}));
  EXPECT_TRUE(tokenizer.IsSpecial(256));
  EXPECT_FALSE(tokenizer.IsSpecial(258));
  EXPECT_FALSE(tokenizer.IsSpecial('<'));
  EXPECT_FALSE(tokenizer.IsSpecial(1000));
  EXPECT_EQ(tokenizer.TokenToId("<s>"), 256);
  const Ids ids = {256, 'h', 'i', 258, 257, 5000, -3};
  EXPECT_EQ(tokenizer.Decode(ids), "hiab");
  EXPECT_EQ(tokenizer.Decode(ids, false), "<s>hiab<s>>");
}

TEST(Tokenizer, TemplateAddsSpecialTokens) {
  Json json = SmallTokenizer({});
  json["added_tokens"] = {Added(256, "<s>"), Added(257, "</s>")};
  const auto special = [](const char* id) {
    return Json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const auto ids = [](const char* id, int value) {
    return Json{{"id", id}, {"ids", {value}}, {"tokens", {id}}};
  };
  const Json processing = {
      {"type", "TemplateProcessing"},
      {"single", {special("<s>"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special("</s>")}},
      {"pair", Json::array()},
      {"special_tokens", {{"<s>", ids("<s>", 256)}, {"</s>", ids("</s>", 257)}}}};
  const Json byte_level = json["pre_tokenizer"];
  for (const Json& section :
       {processing, Json{{"type", "Sequence"}, {"processors", {byte_level, processing}}}}) {
    json["post_processor"] = section;
    const Tokenizer tokenizer = Load(json);
    EXPECT_EQ(Encode(tokenizer, "a"), (Ids{256, 'a', 257}));
    EXPECT_EQ(Encode(tokenizer, ""), (Ids{256, 257}));
    EXPECT_EQ(Encode(tokenizer, "a", {.add_special_tokens = false}), (Ids{'a'}));
  }
}

TEST(Tokenizer, PrefixSpaceAndDigits) {
  Json json = SmallTokenizer({{" ", "a"}, {"1", "2"}});
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(Encode(Load(json), "a12"), (Ids{256, 257}));
  json["pre_tokenizer"]["add_prefix_space"] = false;
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}}, json["pre_tokenizer"]}}};
  EXPECT_EQ(Encode(Load(json), " a12"), (Ids{256, '1', '2'}));
}

TEST(Tokenizer, NeitherCutsNorPads) {
  Json json = SmallTokenizer({});
  const Ids whole = Encode(Load(json), "abcdef");
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {
      {"strategy", {{"Fixed", 9}}}, {"direction", "Right"}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "a"},     {"pad_to_multiple_of", 8}};
  EXPECT_EQ(whole, (Ids{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(Encode(Load(json), "abcdef"), whole);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Result<Ids> ids = Load(SmallTokenizer({})).Encode("abc\xFF");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("byte 3"), std::string::npos) << ids.status().message();
}

TEST(StreamDecoder, HoldsIncompleteCharacters) {
  const Tokenizer tokenizer = Load(SmallTokenizer({}));
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Push(0xF0), "");
  EXPECT_EQ(decoder.Push(0x9F), "");
  EXPECT_EQ(decoder.Push(0x99), "");
  EXPECT_EQ(decoder.Push(0x82), "🙂");
  EXPECT_EQ(decoder.Push('a'), "a");
  EXPECT_EQ(decoder.Push(0xC3), "");
  EXPECT_EQ(decoder.Push('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(decoder.Push(0xE4), "");
  StreamDecoder moved = std::move(decoder);
  EXPECT_EQ(moved.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(moved.Flush(), "");
}

TEST(StreamDecoder, PiecesJoinedEqualDecode) {
  Json json = SmallTokenizer({{"\xE4", "\xB8"}, {"\xF0", "\x9F"}, {"\x99", "\x82"}, {"a", "\xC3"}});
  json["added_tokens"] = {Added(260, "<s>"), Added(261, "é ü", false), Added(262, "<é>")};
  const Tokenizer tokenizer = Load(json);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Ids ids;
    for (size_t n = random() % 30; n > 0; --n) {
      ids.push_back(
          static_cast<TokenId>(random() % 2 ? 250 + random() % 20 : 0x80 + random() % 0x80));
    }
    for (const bool skip : {false, true}) {
      StreamDecoder decoder(tokenizer, skip);
      std::string joined;
      for (const TokenId id : ids) {
        const std::string piece = decoder.Push(id);
        ASSERT_EQ(FindInvalidUtf8(piece), std::string_view::npos);
        joined += piece;
      }
      joined += decoder.Flush();
      ASSERT_EQ(joined, tokenizer.Decode(ids, skip));
    }
  }
}

TEST(Tokenizer, DecodingWhatWasEncodedGivesTheText) {
  const Tokenizer tokenizer = Load(SmallTokenizer({{" ", "a"}, {"a", "b"}, {"\xC3", "\xA9"}}));
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) {
      const char32_t c = random() % 0x110000;
      AppendUtf8(c >= 0xD800 && c < 0xE000 ? U' ' : c, &text);
    }
    ASSERT_EQ(tokenizer.Decode(Encode(tokenizer, text)), text);
  }
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Tokenizer tokenizer =
      Load(SmallTokenizer({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {" ", "abc"}}));
  const std::string text = "abc bc cab abcabc ab é🙂 12 abc";
  const Ids expected =
      Encode(Load(SmallTokenizer({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {" ", "abc"}})), text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const Result<Ids> ids = tokenizer.Encode(text);
        wrong[t] += !ids.ok() || *ids != expected || tokenizer.Decode(*ids) != text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace slipstream::text
