#include "base/statistics.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plimsoll
