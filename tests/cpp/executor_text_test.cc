// Text of a request: streaming, stop strings, held characters, through the public Tokenizer.
#include <gtest/gtest.h>

#include <future>
#include <random>

#include "executor_fixture.h"
#include "slipstream/text.h"

namespace slipstream::executor {
namespace {

constexpr TokenId kEnd = 256;

// A byte-level tokenizer without merges: the id of a byte is the byte, 256 is <|end|>.
Tokenizer ByteTokenizer() {
  std::string vocab;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    char escaped[16];
    std::snprintf(escaped, sizeof(escaped), "\\u%04x", printable ? byte : next++);
    vocab += "\"" + std::string(escaped) + "\":" + std::to_string(byte) + ",";
  }
  vocab += "\"<|end|>\":256";
  const std::string json =
      R"({"version":"1.0","truncation":null,"padding":null,"normalizer":null,)"
      R"("post_processor":null,"added_tokens":[{"id":256,"content":"<|end|>",)"
      R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
      R"("use_regex":true},"decoder":{"type":"ByteLevel","add_prefix_space":true,)"
      R"("trim_offsets":true,"use_regex":true},"model":{"type":"BPE","dropout":null,)"
      R"("unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
      R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"merges":[],"vocab":{)" +
      vocab + "}}}";
  auto tokenizer = Tokenizer::FromJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return *tokenizer;
}

// An executor whose model says `text`, byte by byte, after a prompt of one token.
struct TextFixture : Fixture {
  explicit TextFixture(const std::string& says) {
    fake.vocab = limits.vocab_size = 257;
    limits.max_seq_len = 512;
    eos = {kEnd};
    tokenizer = ByteTokenizer();
    for (const char c : says) fake.script.push_back(static_cast<uint8_t>(c));
    fake.script.push_back(kEnd);
  }
};

Request Prompt(std::string text) {
  Request request;
  request.prompt = std::move(text);
  request.sampling = {.max_tokens = 400, .temperature = 0.0f};
  return request;
}

TEST(ExecutorTextTest, TextInTextOut) {
  TextFixture fixture("Grüße, \U0001F600!");
  const auto executor = fixture.Make();
  const Response answer = Collect(*executor, *executor->Submit(Prompt("x")));
  EXPECT_EQ(answer.text, "Grüße, \U0001F600!");
  EXPECT_EQ(answer.stop_token, kEnd);
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_EQ(answer.prompt_tokens, 1);
}

TEST(ExecutorTextTest, EveryDeltaIsWholeCharacters) {
  TextFixture fixture("é€\U0001F600z");
  const auto executor = fixture.Make();
  std::vector<std::string> pieces;
  std::promise<void> done;
  ASSERT_TRUE(executor
                  ->Submit(Prompt("x"),
                           [&](const Response& news) {
                             pieces.push_back(news.text);
                             if (news.finished()) done.set_value();
                           })
                  .ok());
  done.get_future().wait();
  EXPECT_EQ(pieces,
            (std::vector<std::string>{"", "é", "", "", "€", "", "", "", "\U0001F600", "z", ""}));
}

TEST(ExecutorTextTest, CutCharacterBecomesAReplacementAtTheEnd) {
  TextFixture fixture("ab\xE2\x82");
  const auto executor = fixture.Make();
  EXPECT_EQ(Collect(*executor, *executor->Submit(Prompt("x"))).text, "ab\uFFFD");
}

TEST(ExecutorTextTest, StopStringAcrossTokens) {
  TextFixture fixture("one two three");
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.stop = {"zzz", " tw"};
  const Response answer = Collect(*executor, *executor->Submit(request));
  EXPECT_EQ(answer.text, "one");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_EQ(answer.stop_string, " tw");
  EXPECT_EQ(answer.stop_token, -1);
  EXPECT_EQ(answer.token_ids.size(), 6u);
  request.sampling.include_stop_str_in_output = true;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text, "one tw");
}

TEST(ExecutorTextTest, AStopStringInsideMinTokensDoesNotEnd) {
  TextFixture fixture("one two one two three");
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.stop = {" two"};
  for (const int32_t min_tokens : {0, 6}) {
    request.sampling.min_tokens = min_tokens;
    EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text, "one") << min_tokens;
  }
  for (const int32_t min_tokens : {7, 14}) {
    request.sampling.min_tokens = min_tokens;
    const Response answer = Collect(*executor, *executor->Submit(request));
    EXPECT_EQ(answer.text, "one two one") << min_tokens;
    EXPECT_EQ(answer.stop_string, " two");
    EXPECT_EQ(answer.token_ids.size(), 15u);
  }
  request.sampling.include_stop_str_in_output = true;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text, "one two one two");
}

TEST(ExecutorTextTest, MinTokensExcludesEveryEnd) {
  TextFixture fixture("ab");
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.stop_token_ids = {'b'};
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).token_ids,
            (std::vector<TokenId>{'a', 'b'}));
  request.sampling.min_tokens = 10;
  const Response answer = Collect(*executor, *executor->Submit(request));
  for (size_t i = 0; i < 10; ++i)
    EXPECT_TRUE(answer.token_ids[i] != 'b' && answer.token_ids[i] != kEnd) << i;
}

TEST(ExecutorTextTest, BadWordsAsTexts) {
  TextFixture fixture("one two");
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.max_tokens = 7;
  request.sampling.bad_words = {"two"};
  const Response answer = Collect(*executor, *executor->Submit(request));
  EXPECT_EQ(answer.text.substr(0, 6), "one tw");
  EXPECT_NE(answer.token_ids[6], 'o');
  // " e" begins with a space of its own; "e" alone is excluded as well, wherever it stands.
  request.sampling.bad_words = {"e"};
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text.find('e'), std::string::npos);
  request.sampling.bad_words = {"ok", ""};
  EXPECT_NE(executor->Submit(request).status().message().find("bad_words[1] is empty"),
            std::string::npos);
}

TEST(ExecutorTextTest, HeldTextComesWithLengthAndCancel) {
  TextFixture fixture("one two three");
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.stop = {" two four"};
  request.sampling.max_tokens = 6;
  const Response length = Collect(*executor, *executor->Submit(request));
  EXPECT_EQ(length.text, "one tw");
  EXPECT_EQ(length.finish_reason, FinishReason::kLength);
  EXPECT_TRUE(length.stop_string.empty());
}

TEST(ExecutorTextTest, SpecialTokensInTheText) {
  TextFixture fixture("ab");
  fixture.fake.script = {'a', kEnd, 'b', kEnd};
  const auto executor = fixture.Make();
  Request request = Prompt("x");
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = 3;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text, "ab");
  request.sampling.skip_special_tokens = false;
  EXPECT_EQ(Collect(*executor, *executor->Submit(request)).text, "a<|end|>b");
}

TEST(ExecutorTextTest, BadTextIsRefusedWithItsOffset) {
  TextFixture fixture("ab");
  const auto executor = fixture.Make();
  const auto prompt = executor->Submit(Prompt("ab\xFFz"));
  EXPECT_EQ(prompt.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(prompt.status().message().find("byte 2"), std::string::npos)
      << prompt.status().message();
  Request request = Prompt("x");
  request.sampling.stop = {"ok", "\xC3"};
  const auto stop = executor->Submit(request);
  EXPECT_NE(stop.status().message().find("stop[1] is not valid UTF-8 at byte 0"), std::string::npos)
      << stop.status().message();
  request.sampling.stop = {""};
  EXPECT_NE(executor->Submit(request).status().message().find("stop[0] is empty"),
            std::string::npos);
}

// Random byte streams, valid or not, with random stops: deltas joined equal Decode of the ids, cut
// by the definition.
TEST(ExecutorTextTest, StreamEqualsWholeForRandomBytes) {
  const uint32_t seed = 4242;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {"a",          "b",    "ab",   "é",  "€",
                                          "\U0001F600", "\xE2", "\x80", "\n", "\xF0\x9F"};
  int stopped = 0;
  for (int round = 0; round < 150; ++round) {
    std::string says;
    for (size_t n = random() % 30; n > 0; --n) says += parts[random() % parts.size()];
    TextFixture fixture(says);
    const auto executor = fixture.Make();
    Request request = Prompt("x");
    for (size_t n = random() % 3; n > 0; --n) {
      std::string stop;
      for (size_t k = 1 + random() % 3; k > 0; --k) stop += parts[random() % 6];
      request.sampling.stop.push_back(stop);
    }
    std::string streamed;
    std::promise<Response> ended;
    ASSERT_TRUE(executor
                    ->Submit(request,
                             [&](const Response& news) {
                               streamed += news.text;
                               if (news.finished()) ended.set_value(news);
                             })
                    .ok());
    const Response last = ended.get_future().get();
    const Response whole = Collect(*executor, *executor->Submit(request));
    ASSERT_EQ(streamed, whole.text);
    std::vector<TokenId> ids;
    for (const char c : says) ids.push_back(static_cast<uint8_t>(c));
    const std::string decoded = fixture.tokenizer->Decode(ids);
    decode::StopMatcher matcher(request.sampling.stop);
    std::string want = matcher.Push(decoded);
    want += matcher.Flush();
    ASSERT_EQ(streamed, want);
    ASSERT_EQ(!last.stop_string.empty(), matcher.matched());
    stopped += matcher.matched();
  }
  EXPECT_GT(stopped, 30);
}

}  // namespace
}  // namespace slipstream::executor
