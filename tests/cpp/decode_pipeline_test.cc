// The stages of the logits pipeline against definitions that see the whole sequence at once, on
// random rows and histories.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

#include "decode/logits_pipeline.h"

namespace slipstream::decode {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kVocab = 50;

using Tokens = std::vector<TokenId>;
using Row = std::vector<float>;

// What SamplingParams says, one token at a time.
Row Reference(const SamplingParams& s, const Tokens& end_ids, const Tokens& tokens,
              int32_t prompt_tokens, Row row) {
  const auto count = [&](TokenId id, size_t from) {
    return std::count(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(), id);
  };
  const auto ends_with = [](const Tokens& all, const Tokens& tail) {
    return all.size() >= tail.size() && std::equal(tail.rbegin(), tail.rend(), all.rbegin());
  };
  for (TokenId id = 0; id < static_cast<TokenId>(row.size()); ++id) {
    float& x = row[id];
    if (s.logit_bias.contains(id)) x += s.logit_bias.at(id);
    if (count(id, 0) > 0) x = x < 0 ? x * s.repetition_penalty : x / s.repetition_penalty;
    const auto generated = count(id, prompt_tokens);
    x -= s.frequency_penalty * static_cast<float>(generated);
    if (generated > 0) x -= s.presence_penalty;
    bool excluded = !s.allowed_token_ids.empty() &&
                    std::find(s.allowed_token_ids.begin(), s.allowed_token_ids.end(), id) ==
                        s.allowed_token_ids.end();
    Tokens longer = tokens;
    longer.push_back(id);
    for (const Tokens& word : s.bad_words_ids) excluded |= ends_with(longer, word);
    const size_t n = static_cast<size_t>(s.no_repeat_ngram_size);
    if (n > 0 && longer.size() > n) {
      const Tokens gram(longer.end() - static_cast<std::ptrdiff_t>(n), longer.end());
      excluded |=
          std::search(tokens.begin(), tokens.end(), gram.begin(), gram.end()) != tokens.end();
    }
    if (static_cast<int64_t>(tokens.size()) - prompt_tokens < s.min_tokens)
      excluded |= std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end();
    if (excluded) x = -kInf;
  }
  return row;
}

SamplingParams DrawSettings(std::mt19937& random) {
  const auto id = [&] { return static_cast<TokenId>(random() % kVocab); };
  SamplingParams s;
  s.max_tokens = 100;
  if (random() % 2 == 0) s.repetition_penalty = 0.5f + static_cast<float>(random() % 20) / 10;
  if (random() % 2 == 0) s.presence_penalty = static_cast<float>(random() % 40) / 10 - 2;
  if (random() % 2 == 0) s.frequency_penalty = static_cast<float>(random() % 40) / 10 - 2;
  if (random() % 2 == 0) s.no_repeat_ngram_size = 1 + static_cast<int32_t>(random() % 5);
  if (random() % 2 == 0) s.min_tokens = static_cast<int32_t>(random() % 30);
  for (size_t n = random() % 4; n > 0; --n)
    s.logit_bias[id()] = static_cast<float>(random() % 100) / 10 - 5;
  for (size_t n = random() % 2 * 30; n > 0; --n) s.allowed_token_ids.push_back(id());
  for (size_t n = random() % 6; n > 0; --n) {
    Tokens word;
    for (size_t k = 1 + random() % 3; k > 0; --k)
      word.push_back(static_cast<TokenId>(random() % 5));
    s.bad_words_ids.push_back(word);
  }
  return s;
}

TEST(LogitsPipelineTest, EqualsTheDefinitionsWhileASequenceGrows) {
  const uint32_t seed = 2026;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  int pipelines = 0, excluded_all = 0, excluded = 0;
  for (int round = 0; round < 400; ++round) {
    const SamplingParams settings = DrawSettings(random);
    const Tokens end_ids = {3, static_cast<TokenId>(random() % kVocab)};
    const auto pipeline = LogitsPipeline::Make(settings, end_ids, {});
    // Few different tokens, so that they repeat.
    const int32_t letters = 2 + static_cast<int32_t>(random() % 8);
    Tokens tokens;
    for (size_t n = 1 + random() % 20; n > 0; --n)
      tokens.push_back(static_cast<TokenId>(random() % letters));
    const int32_t prompt_tokens = static_cast<int32_t>(tokens.size());
    for (int step = 0; step < 25; ++step) {
      Row row(kVocab);
      for (float& x : row) x = normal(random);
      const Row want = Reference(settings, end_ids, tokens, prompt_tokens, row);
      if (pipeline == nullptr) {
        ASSERT_EQ(row, want) << "settings that change something made no pipeline";
        break;
      }
      ++pipelines;
      const Status status = pipeline->Apply(tokens, prompt_tokens, row);
      if (std::all_of(want.begin(), want.end(), [](float x) { return x == -kInf; })) {
        ASSERT_EQ(status.code(), StatusCode::kInvalidArgument);
        ASSERT_NE(status.message().find("exclude every token"), std::string::npos);
        ++excluded_all;
      } else {
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(row, want) << "round " << round << " step " << step;
        excluded += static_cast<int>(std::count(want.begin(), want.end(), -kInf));
      }
      // Sometimes several at once, as after a resume.
      for (size_t n = 1 + random() % 10 / 9 * 3; n > 0; --n)
        tokens.push_back(static_cast<TokenId>(random() % letters));
    }
  }
  EXPECT_GT(pipelines, 5000);
  EXPECT_GT(excluded, 5000);
}

TEST(LogitsPipelineTest, NothingToDoIsNoPipeline) {
  EXPECT_EQ(LogitsPipeline::Make({}, {0}, {}), nullptr);
  EXPECT_EQ(LogitsPipeline::Make({.temperature = 0.5f, .top_k = 3, .typical_p = 0.5f}, {0}, {}),
            nullptr);
  EXPECT_NE(LogitsPipeline::Make({.min_tokens = 1}, {0}, {}), nullptr);
}

TEST(LogitsPipelineTest, AllExcludedIsAnError) {
  const auto pipeline = LogitsPipeline::Make({.min_tokens = 5, .allowed_token_ids = {2}}, {2}, {});
  Row row(4, 1.0f);
  const Status status = pipeline->Apply(Tokens{1, 1}, 2, row);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("position 2"), std::string::npos) << status.message();
}

TEST(LogitsPipelineTest, OwnProcessorsComeLastAndInOrder) {
  SamplingParams settings;
  settings.logit_bias = {{1, 5.0f}};
  settings.allowed_token_ids = {1, 2};
  std::vector<LogitsProcessor> own;
  own.push_back([](std::span<const TokenId> tokens, std::span<float> logits) {
    EXPECT_EQ(Tokens(tokens.begin(), tokens.end()), (Tokens{7, 8}));
    EXPECT_EQ(Row(logits.begin(), logits.end()), (Row{-kInf, 6.0f, 1.0f, -kInf}));
    logits[3] = 2.0f;
  });
  own.push_back([](std::span<const TokenId>, std::span<float> logits) { logits[3] *= 3.0f; });
  const auto pipeline = LogitsPipeline::Make(settings, {0}, own);
  Row row(4, 1.0f);
  ASSERT_TRUE(pipeline->Apply(Tokens{7, 8}, 1, row).ok());
  EXPECT_EQ(row, (Row{-kInf, 6.0f, 1.0f, 6.0f}));
}

TEST(LogitsPipelineTest, WhatAProcessorDoesWrongNamesIt) {
  const auto message = [](LogitsProcessor bad) {
    std::vector<LogitsProcessor> own = {[](std::span<const TokenId>, std::span<float>) {},
                                        std::move(bad)};
    Row row(4, 1.0f);
    const Status status = LogitsPipeline::Make({}, {}, own)->Apply(Tokens{1}, 1, row);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  const auto starts = [](const std::string& text, const std::string& head) {
    return text.starts_with(head) ? testing::AssertionSuccess()
                                  : testing::AssertionFailure() << text;
  };
  using Ids = std::span<const TokenId>;
  using Logits = std::span<float>;
  EXPECT_TRUE(starts(message([](Ids, Logits) { throw std::runtime_error("boom"); }),
                     "logits_processors[1] threw: boom."));
  EXPECT_TRUE(
      starts(message([](Ids, Logits) { throw 7; }), "logits_processors[1] threw something"));
  EXPECT_TRUE(starts(message([](Ids, Logits row) { row[2] = std::nanf(""); }),
                     "logits_processors[1] left NaN at id 2."));
  EXPECT_TRUE(starts(message([](Ids, Logits row) { row[3] = kInf; }),
                     "logits_processors[1] left +infinity at id 3."));
  EXPECT_TRUE(starts(message([](Ids, Logits row) { std::fill(row.begin(), row.end(), -kInf); }),
                     "The settings exclude every token"));
}

TEST(TokenCountsTest, CountsEachTokenOnce) {
  TokenCounts counts;
  const Tokens tokens = {4, 4, 9, 4, 9, 1};
  for (size_t length = 2; length <= tokens.size(); length += 2)
    counts.CatchUp(std::span(tokens).first(length), 3);
  ASSERT_EQ(counts.entries().size(), 3u);
  EXPECT_EQ(counts.entries()[0].id, 4);
  EXPECT_EQ(counts.entries()[0].generated, 1);
  EXPECT_EQ(counts.entries()[1].id, 9);
  EXPECT_EQ(counts.entries()[1].generated, 1);
  EXPECT_EQ(counts.entries()[2].id, 1);
  EXPECT_EQ(counts.entries()[2].generated, 1);
}

TEST(LogitsPipelineTest, LongNgramsOfRepetitiveTexts) {
  std::mt19937 random(11);
  SamplingParams settings;
  int64_t excluded = 0;
  for (int round = 0; round < 2000; ++round) {
    // A period, now and then broken.
    Tokens period(1 + random() % 4);
    for (TokenId& token : period) token = static_cast<TokenId>(random() % 3);
    Tokens tokens;
    const size_t size = 1 + random() % 40;
    for (size_t i = 0; i < size; ++i) {
      const bool broken = random() % 12 == 0;
      tokens.push_back(broken ? static_cast<TokenId>(random() % 3) : period[i % period.size()]);
    }
    settings.no_repeat_ngram_size = 1 + static_cast<int32_t>(random() % 20);
    Row row(kVocab, 1.0f);
    (void)LogitsPipeline::Make(settings, {}, {})->Apply(tokens, 1, row);
    const Row expected = Reference(settings, {}, tokens, 1, Row(kVocab, 1.0f));
    ASSERT_EQ(row, expected) << "round " << round << ", n " << settings.no_repeat_ngram_size;
    excluded += std::count(row.begin(), row.end(), -kInf);
  }
  EXPECT_GT(excluded, 1000);
}

TEST(LogitsPipelineTest, ValuesThatOverflowAreTheFaultOfTheSettings) {
  SamplingParams bias;
  bias.logit_bias = {{3, 3e38f}};
  SamplingParams penalty;
  penalty.repetition_penalty = 1e-38f;
  SamplingParams negative;
  negative.frequency_penalty = -3e38f;
  for (const SamplingParams& settings : {bias, penalty, negative}) {
    Row row(kVocab, 1e38f);
    const Status status = LogitsPipeline::Make(settings, {}, {})->Apply(Tokens{3, 3, 3}, 1, row);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("id 3 at position 3"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace slipstream::decode
