// Log-probabilities against long double and a full sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "decode/logprobs.h"

namespace slipstream::decode {
namespace {

std::vector<float> RandomRow(std::mt19937& random, size_t size, int levels) {
  std::vector<float> row(size);
  // Few levels: many ties.
  for (float& x : row) x = static_cast<float>(static_cast<int>(random() % levels) - levels / 2) / 8;
  return row;
}

TEST(ScoreTokenTest, EqualsASortOfTheWholeRow) {
  const uint32_t seed = 77;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 6000;
    std::vector<float> row = RandomRow(random, size, round % 2 == 0 ? 12 : 100000);
    if (round % 5 == 0) row[random() % size] = -std::numeric_limits<float>::infinity();
    std::vector<TokenId> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return row[a] > row[b]; });
    if (std::isinf(row[order[0]])) continue;
    long double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<long double>(x) - row[order[0]]);
    const long double log_sum = row[order[0]] + std::log(sum);

    const TokenId id = static_cast<TokenId>(random() % size);
    const int32_t top = static_cast<int32_t>(random() % 40);
    const TokenLogprobs scores = ScoreToken(core::ScalarRowMath(), row, id, top);
    EXPECT_EQ(order[scores.rank - 1], id);
    ASSERT_EQ(scores.top.size(), std::min<size_t>(top, size));
    for (size_t i = 0; i < scores.top.size(); ++i) {
      ASSERT_EQ(scores.top[i].id, order[i]) << "rank " << i + 1;
      if (std::isinf(row[order[i]])) {
        ASSERT_EQ(scores.top[i].logprob, -std::numeric_limits<float>::infinity());
      } else {
        ASSERT_NEAR(scores.top[i].logprob, row[order[i]] - log_sum, 1e-3);
      }
    }
    if (!std::isinf(row[id])) {
      ASSERT_NEAR(scores.logprob, row[id] - log_sum, 1e-3);
    }
    // The contract, to the bit.
    ASSERT_EQ(scores.logprob,
              row[id] - core::ScalarRowMath().log_sum_exp(row.data(), static_cast<int32_t>(size)));
  }
}

}  // namespace
}  // namespace slipstream::decode
