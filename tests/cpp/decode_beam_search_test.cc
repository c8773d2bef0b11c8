// Beam search against what Hugging Face finds in the same tables of log-probabilities
// (tests/tools/make_beam_reference.py), and against a search of everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "decode/beam_search.h"
#include "decode/diverse_beam_search.h"

namespace slipstream::decode {
namespace {

using Tokens = std::vector<TokenId>;
using Row = std::vector<float>;

Row LogSoftmax(Row row) {
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  for (float& x : row) x = static_cast<float>(x - std::log(sum));
  return row;
}

// The formula of make_beam_reference.py.
Row TableRow(uint32_t seed, uint32_t vocab, uint32_t before, uint32_t last, const Tokens& ends) {
  Row row(vocab);
  for (uint32_t id = 0; id < vocab; ++id) {
    uint32_t x = id * 2246822519u + last * 2654435761u + before * 668265263u + seed * 3266489917u;
    x = (x ^ (x >> 15)) * 2246822519u;
    x = (x ^ (x >> 13)) * 3266489917u;
    x ^= x >> 16;
    row[id] = static_cast<float>(x >> 16) / 16384.0f;
  }
  for (const TokenId end : ends) row[end] += 1.5f;
  return LogSoftmax(std::move(row));
}

// Runs a search; `row_of` gives the row after the prompt and some generated tokens.
template <class Searcher, class RowOf>
std::vector<BeamSearch::Hypothesis> Finish(Searcher search, const RowOf& row_of) {
  std::vector<Tokens> beams(search.num_rows());
  while (!search.done()) {
    EXPECT_EQ(search.num_rows(), beams.size());
    std::vector<Row> rows;
    for (const Tokens& beam : beams) rows.push_back(row_of(beam));
    search.Advance(std::vector<std::span<const float>>(rows.begin(), rows.end()));
    std::vector<Tokens> next;
    for (const BeamSearch::Continuation& beam : search.running()) {
      next.push_back(beams[beam.parent]);
      next.back().push_back(beam.token);
    }
    beams = std::move(next);
  }
  return search.hypotheses();
}

template <class RowOf>
std::vector<BeamSearch::Hypothesis> Search(const BeamSearchOptions& options, const RowOf& row_of) {
  return Finish(BeamSearch(options), row_of);
}

TEST(BeamSearchTest, EqualsHuggingFace) {
  std::ifstream file(SLIPSTREAM_BEAM_REFERENCE);
  ASSERT_TRUE(file) << SLIPSTREAM_BEAM_REFERENCE;
  const nlohmann::json reference = nlohmann::json::parse(file);
  const Tokens prompt = reference["prompt"];
  int answers = 0, shorter = 0;
  for (const nlohmann::json& one : reference["cases"]) {
    SCOPED_TRACE(testing::Message() << "seed " << one["seed"]);
    const std::string early = one["early_stopping"];
    BeamSearchOptions options{.num_beams = one["num_beams"],
                              .max_tokens = one["max_tokens"],
                              .length_penalty = one["length_penalty"],
                              .early_stopping = early == "yes"  ? EarlyStopping::kYes
                                                : early == "no" ? EarlyStopping::kNo
                                                                : EarlyStopping::kNever,
                              .end_ids = one["end_ids"].get<Tokens>()};
    const auto found = Search(options, [&](const Tokens& generated) {
      Tokens tokens = prompt;
      tokens.insert(tokens.end(), generated.begin(), generated.end());
      return TableRow(one["seed"], one["vocab"], *(tokens.end() - 2), tokens.back(),
                      options.end_ids);
    });
    const nlohmann::json& want = one["answers"];
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, want[i]["tokens"].get<Tokens>()) << "answer " << i;
      const double score = want[i]["score"];
      EXPECT_NEAR(found[i].score, score, 1e-4 * std::max(1.0, std::abs(score))) << "answer " << i;
      ++answers;
      shorter += static_cast<int32_t>(found[i].tokens.size()) < options.max_tokens;
    }
  }
  EXPECT_GT(answers, 150);
  EXPECT_GT(shorter, 50) << "answers that an end id ended";
}

// With a beam for every sequence there is, the search finds the best of all.
TEST(BeamSearchTest, WideBeamsFindTheBestOfAll) {
  const uint32_t seed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    constexpr uint32_t kVocab = 4;
    const uint32_t table = random();
    const Tokens ends = {static_cast<TokenId>(random() % kVocab)};
    const BeamSearchOptions options{.num_beams = 300,
                                    .max_tokens = 4,
                                    .length_penalty = static_cast<float>(random() % 20) / 10,
                                    .early_stopping = EarlyStopping::kNever,
                                    .end_ids = ends};
    const auto row_of = [&](const Tokens& tokens) {
      const size_t n = tokens.size();
      return TableRow(table, kVocab, n < 2 ? 9 : tokens[n - 2], n < 1 ? 9 : tokens[n - 1], ends);
    };
    std::vector<std::pair<double, Tokens>> all;
    const auto grow = [&](const auto& self, const Tokens& tokens, double sum) -> void {
      const Row row = row_of(tokens);
      for (TokenId id = 0; id < static_cast<TokenId>(kVocab); ++id) {
        Tokens longer = tokens;
        longer.push_back(id);
        const double length = static_cast<double>(longer.size());
        if (id == ends[0] || longer.size() == static_cast<size_t>(options.max_tokens)) {
          all.push_back(
              {(sum + row[id]) / std::pow(length, static_cast<double>(options.length_penalty)),
               longer});
        } else {
          self(self, longer, sum + row[id]);
        }
      }
    };
    grow(grow, {}, 0.0);
    std::sort(all.begin(), all.end(), std::greater<>());
    const auto found = Search(options, row_of);
    ASSERT_EQ(found.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_NEAR(found[i].score, all[i].first, 1e-4);
      if (i == 0 && all[0].first - all[1].first > 1e-3) {
        ASSERT_EQ(found[0].tokens, all[0].second);
      }
    }
  }
}

TEST(DiverseBeamSearchTest, WithoutPenaltyEveryGroupIsThePlainSearch) {
  for (uint32_t table = 0; table < 30; ++table) {
    const Tokens ends = {3};
    const BeamSearchOptions options{.num_beams = 3,
                                    .max_tokens = 9,
                                    .length_penalty = 0.7f,
                                    .early_stopping = EarlyStopping::kNo,
                                    .end_ids = ends};
    const auto row_of = [&](const Tokens& tokens) {
      const size_t n = tokens.size();
      return TableRow(table, 30, n < 2 ? 9 : tokens[n - 2], n < 1 ? 9 : tokens[n - 1], ends);
    };
    const auto plain = Search(options, row_of);
    const auto diverse = Finish(DiverseBeamSearch(options, 4, 0.0f), row_of);
    ASSERT_EQ(diverse.size(), 4 * plain.size());
    for (size_t i = 0; i < diverse.size(); ++i) {
      EXPECT_EQ(diverse[i].score, plain[i / 4].score);
      EXPECT_EQ(diverse[i].tokens, plain[i / 4].tokens);
    }
  }
}

// Groups of one beam without end ids are greedy searches: a definition of a few lines.
TEST(DiverseBeamSearchTest, GroupsOfOneAreGreedyUnderThePenalty) {
  int changed = 0;
  for (uint32_t table = 0; table < 100; ++table) {
    const int32_t groups = 2 + static_cast<int32_t>(table % 4);
    const float penalty = 0.1f * static_cast<float>(1 + table % 20);
    const auto row_of = [&](const Tokens& tokens) {
      const size_t n = tokens.size();
      return TableRow(table, 25, n < 2 ? 9 : tokens[n - 2], n < 1 ? 9 : tokens[n - 1], {});
    };
    std::vector<Tokens> want(groups);
    std::vector<double> sums(groups, 0.0);
    for (int step = 0; step < 6; ++step) {
      std::vector<int> taken(25, 0);
      for (int32_t g = 0; g < groups; ++g) {
        Row row = row_of(want[g]);
        for (size_t id = 0; id < row.size(); ++id)
          row[id] -= penalty * static_cast<float>(taken[id]);
        const auto best = std::max_element(row.begin(), row.end());
        want[g].push_back(static_cast<TokenId>(best - row.begin()));
        sums[g] += *best;
        ++taken[want[g].back()];
      }
    }
    changed += want[0] != want[1];
    std::vector<size_t> order(groups);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return sums[a] > sums[b]; });
    const auto found =
        Finish(DiverseBeamSearch({.num_beams = 1, .max_tokens = 6}, groups, penalty), row_of);
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, want[order[i]]) << "table " << table << " answer " << i;
      EXPECT_NEAR(found[i].score, sums[order[i]] / 6, 1e-4);
    }
  }
  EXPECT_GT(changed, 50);
}

TEST(BeamSearchTest, ExcludedTokensAreNeverTaken) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  BeamSearch search({.num_beams = 3, .max_tokens = 2});
  const Row row = LogSoftmax({1.0f, kNone, 0.0f, kNone});
  search.Advance(std::vector<std::span<const float>>{row});
  ASSERT_EQ(search.running().size(), 2u) << "fewer continuations than beams";
  EXPECT_EQ(search.running()[0].token, 0);
  EXPECT_EQ(search.running()[1].token, 2);
  search.Advance(std::vector<std::span<const float>>{row, row});
  EXPECT_TRUE(search.done());
  ASSERT_EQ(search.hypotheses().size(), 3u);
  EXPECT_EQ(search.hypotheses()[0].tokens, (Tokens{0, 0}));
}

}  // namespace
}  // namespace slipstream::decode
