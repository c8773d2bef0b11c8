// The scalar functions of the numerics contract against long double, and their edge cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/numerics.h"
#include "core/row_math.h"

namespace slipstream {
namespace {

using core::BitsFloat;
using core::FloatBits;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// Error of `got` in units of the last place of the exact value.
long double Ulps(float got, long double exact) {
  const float rounded = static_cast<float>(exact);
  const float ulp = std::nextafter(std::fabs(rounded), kInf) - std::fabs(rounded);
  return std::fabs((static_cast<long double>(got) - exact) / static_cast<long double>(ulp));
}

TEST(Numerics, ExpWithinOneUlpOverItsRange) {
  long double worst = 0;
  for (uint32_t step = 0; step < 1000003; ++step) {
    const float x = -87.336f + 176.05f * (static_cast<float>(step) / 1000003.0f);
    worst = std::max(worst, Ulps(core::Exp(x), std::exp(static_cast<long double>(x))));
  }
  RecordProperty("max_ulp", std::to_string(static_cast<double>(worst)));
  EXPECT_LT(worst, 1.0L) << "ulp";
  EXPECT_GT(worst, 0.4L) << "the measure itself is broken";
}

TEST(Numerics, ExpEdges) {
  EXPECT_EQ(core::Exp(0.0f), 1.0f);
  EXPECT_EQ(core::Exp(-0.0f), 1.0f);
  EXPECT_EQ(core::Exp(-kInf), 0.0f);
  EXPECT_EQ(core::Exp(kInf), kInf);
  EXPECT_EQ(core::Exp(std::nextafter(core::kExpMax, kInf)), kInf);
  EXPECT_TRUE(std::isfinite(core::Exp(core::kExpMax)));
  EXPECT_EQ(core::Exp(std::nextafter(core::kExpMin, -kInf)), 0.0f);
  EXPECT_GE(core::Exp(core::kExpMin), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isnan(core::Exp(kNan)));
  EXPECT_EQ(core::Exp(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(core::Exp(-std::numeric_limits<float>::max()), 0.0f);
}

TEST(Numerics, TanhWithinTwoUlp) {
  long double worst = 0;
  for (uint32_t step = 0; step < 1000003; ++step) {
    const float x = -10.0f + 20.0f * (static_cast<float>(step) / 1000003.0f);
    worst = std::max(worst, Ulps(core::Tanh(x), std::tanh(static_cast<long double>(x))));
  }
  for (uint32_t bits = 0x00800000u; bits < 0x40000000u; bits += 1009) {
    const float x = BitsFloat(bits);
    worst = std::max(worst, Ulps(core::Tanh(x), std::tanh(static_cast<long double>(x))));
  }
  RecordProperty("max_ulp", std::to_string(static_cast<double>(worst)));
  EXPECT_LT(worst, 2.0L);
  EXPECT_GT(worst, 0.4L) << "the measure itself is broken";
  EXPECT_EQ(FloatBits(core::Tanh(-0.0f)), FloatBits(0.0f));
  EXPECT_EQ(core::Tanh(kInf), 1.0f);
  EXPECT_EQ(core::Tanh(-kInf), -1.0f);
  EXPECT_EQ(core::Tanh(-100.0f), -1.0f);
  EXPECT_TRUE(std::isnan(core::Tanh(kNan)));
}

TEST(Numerics, GeluTanhWithinItsErrorBound) {
  const auto exact = [](float value) {
    const long double x = value;
    return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x)));
  };
  // Relative to x: where the exponential is large, its rounded argument decides, and the result is
  // far below x.
  long double worst = 0;
  for (uint32_t step = 0; step < 1000003; ++step) {
    const float x = -12.0f + 24.0f * (static_cast<float>(step) / 1000003.0f);
    const long double error = std::fabs(core::GeluTanh(x) - exact(x));
    worst = std::max(worst, error / std::max(std::fabs(static_cast<long double>(x)), 1e-30L));
  }
  RecordProperty("max_relative_2^-24", std::to_string(static_cast<double>(worst * 0x1p24L)));
  EXPECT_LT(worst, 4.0L * 0x1p-24L);
  EXPECT_GT(worst, 0.1L * 0x1p-24L) << "the measure itself is broken";
  EXPECT_EQ(FloatBits(core::GeluTanh(-0.0f)), FloatBits(-0.0f));
  EXPECT_EQ(core::GeluTanh(50.0f), 50.0f);
  EXPECT_EQ(core::GeluTanh(-50.0f), 0.0f);
  EXPECT_EQ(core::GeluTanh(kInf), kInf);
  EXPECT_EQ(core::GeluTanh(std::numeric_limits<float>::max()), std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isnan(core::GeluTanh(kNan)));
}

TEST(Numerics, LogWithinOneUlpOverAllExponents) {
  long double worst = 0;
  for (uint64_t bits = 1; bits < 0x7f800000u; bits += 1009) {
    const float x = BitsFloat(static_cast<uint32_t>(bits));
    worst = std::max(worst, Ulps(core::Log(x), std::log(static_cast<long double>(x))));
  }
  RecordProperty("max_ulp", std::to_string(static_cast<double>(worst)));
  EXPECT_LT(worst, 1.0L);
  EXPECT_EQ(core::Log(1.0f), 0.0f);
  EXPECT_EQ(core::Log(0.0f), -kInf);
  EXPECT_EQ(core::Log(kInf), kInf);
  EXPECT_TRUE(std::isnan(core::Log(-1.0f)));
  EXPECT_TRUE(std::isnan(core::Log(kNan)));
}

TEST(Numerics, SinAndCosAreGoodForEveryPosition) {
  // RoPE angles are position * inv_freq; the worst reductions are near multiples of pi/2.
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> wide(-0x1p20f, 0x1p20f), narrow(-8.0f, 8.0f);
  long double worst = 0;
  const auto check = [&](float x) {
    float s = 0, c = 0;
    core::SinCos(x, &s, &c);
    worst = std::max(worst, std::fabs(static_cast<long double>(s) - std::sin((long double)x)));
    worst = std::max(worst, std::fabs(static_cast<long double>(c) - std::cos((long double)x)));
  };
  for (int i = 0; i < 300000; ++i) {
    check(wide(rng));
    check(narrow(rng));
  }
  for (int n = 0; n < 100000; n += 3) check(static_cast<float>(n * 1.5707963267948966));
  for (int position = 0; position < (1 << 20); position += 7) check(static_cast<float>(position));
  RecordProperty("max_abs_2^-24", std::to_string(static_cast<double>(worst * 0x1p24L)));
  EXPECT_LT(worst, 1.5L * 0x1p-24L);
}

TEST(Numerics, Bf16RoundsToNearestEven) {
  EXPECT_EQ(core::FloatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(core::FloatToBf16(BitsFloat(0x3f808000)), 0x3f80) << "tie to even";
  EXPECT_EQ(core::FloatToBf16(BitsFloat(0x3f818000)), 0x3f82) << "tie to even, up";
  EXPECT_EQ(core::FloatToBf16(BitsFloat(0x3f808001)), 0x3f81);
  EXPECT_EQ(core::FloatToBf16(std::numeric_limits<float>::max()), 0x7f80) << "overflows";
  EXPECT_EQ(core::FloatToBf16(-kInf), 0xff80);
  EXPECT_TRUE(std::isnan(core::Bf16ToFloat(core::FloatToBf16(BitsFloat(0x7f800001)))));
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = core::Bf16ToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(core::FloatToBf16(value), bits);
    }
  }
}

TEST(Numerics, F16AgreesWithTheCompilersType) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = core::F16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0);
      continue;
    }
    EXPECT_EQ(core::FloatToF16(value), bits);
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const double mantissa = bits & 0x3ff;
    const double exact = exponent == 31  ? std::numeric_limits<double>::infinity()
                         : exponent == 0 ? std::ldexp(mantissa, -24)
                                         : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(value, static_cast<float>((bits & 0x8000) ? -exact : exact));
  }
  // Between two neighbours the nearer wins, a tie goes to the even one.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = core::F16ToFloat(static_cast<uint16_t>(bits));
    const float high = core::F16ToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) * 0.5f;
    EXPECT_EQ(core::FloatToF16(middle), bits + (bits & 1));
    EXPECT_EQ(core::FloatToF16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(core::FloatToF16(std::nextafter(middle, kInf)), bits + 1);
  }
  EXPECT_EQ(core::FloatToF16(65519.99f), 0x7bff);
  EXPECT_EQ(core::FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(core::FloatToF16(1e-30f), 0);
}

TEST(RowMath, ArgmaxTakesTheLowerIndexAndNeverNan) {
  const auto argmax = core::ScalarRowMath().argmax;
  const std::vector<float> ties = {1, 3, 2, 3};
  EXPECT_EQ(argmax(ties.data(), 4), 1);
  const std::vector<float> nans = {kNan, -kInf, kNan};
  EXPECT_EQ(argmax(nans.data(), 3), 1);
  EXPECT_EQ(argmax(nans.data(), 1), 0);
  const std::vector<float> zeros = {-0.0f, 0.0f};
  EXPECT_EQ(argmax(zeros.data(), 2), 0);
}

TEST(RowMath, LogSumExp) {
  const auto lse = core::ScalarRowMath().log_sum_exp;
  std::mt19937 rng(2);
  std::normal_distribution<float> normal(0.0f, 5.0f);
  std::vector<float> x(10007);
  for (float& v : x) v = normal(rng);
  long double sum = 0;
  for (float v : x) sum += std::exp(static_cast<long double>(v));
  EXPECT_NEAR(lse(x.data(), 10007), static_cast<double>(std::log(sum)), 4e-6);
  std::vector<float> masked(9000, -kInf);
  EXPECT_EQ(lse(masked.data(), 9000), -kInf);
  masked[8191] = 2.5f;
  EXPECT_EQ(lse(masked.data(), 9000), 2.5f);
  masked[0] = kNan;
  EXPECT_TRUE(std::isnan(lse(masked.data(), 9000)));
  std::vector<float> y(3);
  const std::vector<float> in = {0.0f, 1.0f, -500.0f};
  core::ScalarRowMath().exp_shifted(in.data(), 2.0f, 2.0f, y.data(), 3);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(y[0], core::Exp(-2.0f));
}

}  // namespace
}  // namespace slipstream
