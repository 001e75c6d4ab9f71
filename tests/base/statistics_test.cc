#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(Quartiles, InterpolateBetweenNeighbours) {
  const Quartiles q = QuartilesOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(q.low, 1.75);
  EXPECT_DOUBLE_EQ(q.median, 2.5);
  EXPECT_DOUBLE_EQ(q.high, 3.25);
}

TEST(Quartiles, AreTheValuesWhereTheyFallOnOne) {
  const Quartiles q = QuartilesOf({50, 10, 40, 20, 30});
  EXPECT_DOUBLE_EQ(q.low, 20);
  EXPECT_DOUBLE_EQ(q.median, 30);
  EXPECT_DOUBLE_EQ(q.high, 40);
}

TEST(Quartiles, OfOneValueAreThatValue) {
  const Quartiles q = QuartilesOf({7});
  EXPECT_EQ(q.low, 7);
  EXPECT_EQ(q.median, 7);
  EXPECT_EQ(q.high, 7);
  EXPECT_THROW(QuartilesOf({}), InternalError);
}

TEST(Mean, DeviatesByTheSample) {
  const Mean mean = MeanOf({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(mean.mean, 5);
  EXPECT_DOUBLE_EQ(*mean.deviation, std::sqrt(32.0 / 7));
  EXPECT_EQ(mean.count, 8);
  EXPECT_FALSE(MeanOf({3}).deviation);
  EXPECT_EQ(MeanOf({0.1, 0.1, 0.1}).mean, 0.1);
  EXPECT_EQ(*MeanOf({0.1, 0.1, 0.1}).deviation, 0);
}

TEST(Confidence, IsStudentsOfTheMean) {
  EXPECT_FALSE(ConfidenceOf(MeanOf({3})));
  const Interval two = *ConfidenceOf(MeanOf({1, 3}));  // 2 ± 12.706 · √2 / √2
  EXPECT_NEAR(two.low, -10.706, 1e-9);
  EXPECT_NEAR(two.high, 14.706, 1e-9);
  const Interval five = *ConfidenceOf({.mean = 0.0096657, .deviation = 0.0089, .count = 5});
  EXPECT_NEAR(five.low, -0.001383, 1e-6);
  EXPECT_NEAR(five.high, 0.020715, 1e-6);
  // Beyond the table, for 15 and 30 degrees of freedom.
  EXPECT_NEAR(ConfidenceOf({.mean = 0, .deviation = 4, .count = 16})->high, 2.131, 1e-3);
  EXPECT_NEAR(ConfidenceOf({.mean = 0, .deviation = std::sqrt(31.0), .count = 31})->high, 2.042,
              1e-3);
  const Interval equal = *ConfidenceOf(MeanOf({0.1, 0.1, 0.1}));
  EXPECT_EQ(equal.low, 0.1);
  EXPECT_EQ(equal.high, 0.1);
}

}  // namespace
}  // namespace plimsoll
