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

}  // namespace
}  // namespace plimsoll
