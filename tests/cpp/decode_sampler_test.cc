// The random numbers against published vectors, the filters against plain doubles, the draw against
// exact probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "decode/philox.h"
#include "decode/sampler.h"

namespace slipstream::decode {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The known answers of Philox4x32-10 that the authors published with the Random123 library.
TEST(PhiloxTest, PublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, SeedAndPositionUseAllTheirBits) {
  EXPECT_EQ(RandomBits(0, 0, RandomPurpose::kSampleToken), 0xe169c58d6627e8d5u);
  const uint64_t base = RandomBits(5, 9, RandomPurpose::kSampleToken);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(base, RandomBits(5 ^ (uint64_t{1} << bit), 9, RandomPurpose::kSampleToken));
    EXPECT_NE(base, RandomBits(5, 9 ^ (uint64_t{1} << bit), RandomPurpose::kSampleToken));
  }
}

TEST(PhiloxTest, ScaleToBoundCoversTheRange) {
  EXPECT_EQ(ScaleToBound(0, 10), 0u);
  EXPECT_EQ(ScaleToBound(~uint64_t{0}, 10), 9u);
  EXPECT_EQ(ScaleToBound(~uint64_t{0}, uint64_t{1} << 60), (uint64_t{1} << 60) - 1);
  EXPECT_EQ(ScaleToBound(uint64_t{1} << 63, 10), 5u);
}

// Which ids may be drawn, and their probabilities, in plain doubles.
struct Reference {
  std::vector<TokenId> ids;  // by likelihood
  std::vector<double> probability;
  double margin = 1;  // distance of the closest decision to its threshold
};

// Meister et al.: by |information - entropy|, until the probabilities sum to typical_p.
template <class Weight>
void KeepTypical(const Weight& weight, double typical_p, std::vector<TokenId>* order,
                 double* margin) {
  double total = 0;
  for (const TokenId id : *order) total += weight(id);
  const auto p = [&](TokenId id) { return weight(id) / total; };
  double entropy = 0;
  for (const TokenId id : *order) entropy -= p(id) * std::log(p(id));
  const auto distance = [&](TokenId id) { return std::abs(-std::log(p(id)) - entropy); };
  std::stable_sort(order->begin(), order->end(),
                   [&](TokenId a, TokenId b) { return distance(a) < distance(b); });
  double sum = 0;
  size_t keep = 0;
  while (keep < order->size()) {
    sum += p((*order)[keep++]);
    *margin = std::min(*margin, std::abs(sum - typical_p));
    if (sum >= typical_p) break;
  }
  // Another logit at nearly the same distance as the last one is a knife's edge; an equal one keeps
  // the order of likelihood.
  const TokenId last = (*order)[keep - 1];
  for (const TokenId id : *order) {
    if (weight(id) != weight(last))
      *margin = std::min(*margin, std::abs(distance(id) - distance(last)));
  }
  order->resize(keep);
  std::sort(order->begin(), order->end(), [&](TokenId a, TokenId b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a < b;
  });
}

Reference PlainReference(const std::vector<float>& logits, const SampleOptions& options) {
  Reference reference;
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size())
    order.resize(options.top_k);
  const double max = logits[order[0]];
  const auto weight = [&](TokenId id) {
    return std::exp((static_cast<double>(logits[id]) - max) / options.temperature);
  };
  double total = 0;
  for (const TokenId id : order) total += weight(id);
  if (options.top_p < 1) {
    double sum = 0;
    size_t keep = 0;
    while (keep < order.size()) {
      sum += weight(order[keep++]);
      reference.margin = std::min(reference.margin, std::abs(sum / total - options.top_p));
      if (sum >= options.top_p * total) break;
    }
    order.resize(keep);
  }
  if (options.min_p > 0) {
    std::erase_if(order, [&](TokenId id) {
      reference.margin = std::min(reference.margin, std::abs(weight(id) - options.min_p));
      return weight(id) < options.min_p;
    });
  }
  if (options.typical_p < 1) KeepTypical(weight, options.typical_p, &order, &reference.margin);
  total = 0;
  for (const TokenId id : order) total += weight(id);
  for (const TokenId id : order) {
    reference.ids.push_back(id);
    reference.probability.push_back(weight(id) / total);
  }
  return reference;
}

// Frequencies of many draws against exact probabilities; and nothing outside the reference's set is
// ever drawn.
void ExpectDistribution(const std::vector<float>& logits, SampleOptions options, int draws) {
  const Reference reference = PlainReference(logits, options);
  std::vector<int> count(logits.size(), 0);
  Sampler sampler(core::ScalarRowMath());
  for (int i = 0; i < draws; ++i) {
    options.position = i;
    ++count[*sampler.Sample(logits, options)];
  }
  double statistic = 0, rest_expected = 0;
  int degrees = -1, rest_count = 0, seen = 0;
  for (size_t i = 0; i < reference.ids.size(); ++i) {
    const double expected = reference.probability[i] * draws;
    const int observed = count[reference.ids[i]];
    seen += observed;
    if (expected < 10) {  // pooled: chi-square needs cells that are not tiny
      rest_expected += expected;
      rest_count += observed;
      continue;
    }
    statistic += (observed - expected) * (observed - expected) / expected;
    ++degrees;
  }
  if (rest_expected >= 10) {
    statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++degrees;
  }
  EXPECT_EQ(seen, draws) << "a filtered token was drawn";
  // Wilson and Hilferty: the 99.9 % quantile of chi-square. Seeds are fixed, so this cannot
  // flicker.
  const double k = std::max(1, degrees);
  const double quantile = k * std::pow(1 - 2 / (9 * k) + 3.09 * std::sqrt(2 / (9 * k)), 3);
  EXPECT_LT(statistic, quantile) << degrees << " degrees of freedom";
}

std::vector<float> RandomLogits(uint32_t seed, int size, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(SamplerTest, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = RandomLogits(3, 60, 1.5f);
  ExpectDistribution(logits, {.temperature = 1.0f, .seed = 1}, 60000);
  ExpectDistribution(logits, {.temperature = 0.5f, .seed = 2}, 60000);
  ExpectDistribution(logits, {.temperature = 2.0f, .seed = 3}, 60000);
  ExpectDistribution(logits, {.temperature = 1.0f, .top_k = 7, .seed = 4}, 60000);
  ExpectDistribution(logits, {.temperature = 1.0f, .top_p = 0.8f, .seed = 5}, 60000);
  ExpectDistribution(logits, {.temperature = 1.0f, .min_p = 0.1f, .seed = 6}, 60000);
  ExpectDistribution(
      logits, {.temperature = 1.3f, .top_k = 30, .top_p = 0.9f, .min_p = 0.05f, .seed = 7}, 60000);
}

TEST(SamplerTest, NeighbouringSeedsAreIndependent) {
  // One position, many seeds, as the children of one request draw.
  const std::vector<float> logits(8, 0.0f);
  std::vector<int> count(8, 0);
  Sampler sampler(core::ScalarRowMath());
  for (uint64_t seed = 0; seed < 40000; ++seed) {
    ++count[*sampler.Sample(logits, {.temperature = 1.0f, .seed = seed, .position = 77})];
  }
  double statistic = 0;
  for (const int observed : count) statistic += (observed - 5000.0) * (observed - 5000.0) / 5000.0;
  EXPECT_LT(statistic, 24.3);  // 99.9 % quantile for 7 degrees of freedom
}

// The kept sets, with many ties, against the plain reference, over the whole row of a large
// vocabulary as well.
TEST(SamplerTest, FiltersEqualThePlainReference) {
  const uint32_t seed = 515;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int checked = 0;
  for (int round = 0; round < 3000; ++round) {
    const int size = round % 100 == 0 ? 20000 : 1 + static_cast<int>(random() % 200);
    std::vector<float> logits = RandomLogits(random(), size, 2.0f);
    if (round % 2) {
      for (float& logit : logits) logit = std::round(logit * 2) / 2;  // ties everywhere
    }
    SampleOptions options{.temperature = 0.3f + static_cast<float>(random() % 100) / 50};
    if (random() % 2) options.top_k = 1 + static_cast<int32_t>(random() % 50);
    if (random() % 2) options.top_p = 0.01f + static_cast<float>(random() % 99) / 100;
    if (random() % 2) options.min_p = static_cast<float>(random() % 100) / 100;
    if (random() % 2) options.typical_p = 0.01f + static_cast<float>(random() % 99) / 100;
    const Reference want = PlainReference(logits, options);
    if (want.margin < 1e-5) continue;  // float and double may differ on a knife's edge

    std::vector<Candidate> kept;
    const float max = *std::max_element(logits.begin(), logits.end());
    for (int id = 0; id < size; ++id) {
      const float p = std::exp((logits[id] - max) / options.temperature);
      kept.push_back({logits[id], id, ToWeight(p)});
    }
    KeepTopK(options.top_k, &kept);
    KeepTopP(options.top_p, &kept);
    KeepMinP(options.min_p, &kept);
    const float scale = 1.0f / options.temperature;
    KeepTypicalP(options.typical_p, scale, max * scale, &kept);
    std::sort(kept.begin(), kept.end(), Likelier);
    std::vector<TokenId> ids;
    for (const Candidate& candidate : kept) ids.push_back(candidate.id);
    ASSERT_EQ(ids, want.ids) << "round " << round;
    // The extreme draws give the ends of the set, by id, without what is too unlikely to have a
    // weight.
    std::erase_if(kept, [](const Candidate& candidate) { return candidate.weight == 0; });
    const auto [first, last] =
        std::minmax_element(kept.begin(), kept.end(),
                            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    const TokenId lowest = first->id, highest = last->id;
    ASSERT_EQ(Draw(0, &kept), lowest);
    ASSERT_EQ(Draw(~uint64_t{0}, &kept), highest);
    ++checked;
  }
  EXPECT_GT(checked, 2500);
}

TEST(SamplerTest, TiesGoToTheLowerId) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 3.0f, 2.0f};
  Sampler sampler(core::ScalarRowMath());
  EXPECT_EQ(*sampler.Sample(logits, {.temperature = 0.0f}), 1);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_LE(*sampler.Sample(logits, {.temperature = 1.0f, .top_k = 2, .seed = seed}), 2);
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1.0f, .top_k = 1, .seed = seed}), 1);
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1.0f, .top_p = 1e-6f, .seed = seed}), 1);
    const TokenId min_p =
        *sampler.Sample(logits, {.temperature = 1.0f, .min_p = 1.0f, .seed = seed});
    EXPECT_TRUE(min_p >= 1 && min_p <= 3);
  }
}

TEST(SamplerTest, GreedyIgnoresSeedAndFilters) {
  const std::vector<float> logits = RandomLogits(8, 5000, 1.0f);
  Sampler sampler(core::ScalarRowMath());
  const TokenId best =
      static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(
        *sampler.Sample(logits, {.temperature = 0.0f, .top_k = 3, .min_p = 0.5f, .seed = seed}),
        best);
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 9.9e-6f, .seed = seed}), best);
    // Just above the threshold exp underflows for all but the best.
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1.1e-5f, .seed = seed}), best);
  }
}

TEST(SamplerTest, BadLogitsNameThePosition) {
  Sampler sampler(core::ScalarRowMath());
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float bad : {kNan, kInf}) {
      const std::vector<float> logits = {0.0f, 1.0f, bad, 2.0f};
      const auto result = sampler.Sample(logits, {.temperature = temperature, .position = 1234});
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().code(), StatusCode::kInternal);
      EXPECT_NE(result.status().message().find("position 1234"), std::string::npos);
      EXPECT_NE(result.status().message().find("id 2"), std::string::npos);
    }
    const std::vector<float> none(4, -kInf);
    EXPECT_FALSE(sampler.Sample(none, {.temperature = temperature}).ok());
  }
}

TEST(SamplerTest, MinusInfinityExcludesAToken) {
  const std::vector<float> logits = {-kInf, 0.0f, -kInf, 0.0f};
  Sampler sampler(core::ScalarRowMath());
  for (uint64_t seed = 0; seed < 500; ++seed) {
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1.0f, .seed = seed}) % 2, 1);
  }
}

TEST(SamplerTest, HugeLogitsOverATinyTemperatureAreGreedy) {
  const std::vector<float> logits = {-3e38f, 1e36f, 2e38f};
  Sampler sampler(core::ScalarRowMath());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1e-5f, .seed = seed}), 2);
    EXPECT_EQ(*sampler.Sample(logits, {.temperature = 1.0f, .seed = seed}), 2);
  }
}

TEST(SamplerTest, HugeTemperatureIsNearlyUniform) {
  ExpectDistribution({5.0f, -5.0f, 0.0f, 2.0f}, {.temperature = 1e30f, .seed = 9}, 20000);
}

}  // namespace
}  // namespace slipstream::decode
