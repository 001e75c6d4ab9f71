#include "trainer/record/data_time.h"

#include <gtest/gtest.h>

namespace plimsoll::trainer {
namespace {

TEST(DataTime, IsToldFromATenthOfTheStepOn) {
  EXPECT_EQ(DataTimeText(6.12e-3, 20.21e-3), "data 6.12 of 20.2 ms");
  EXPECT_EQ(DataTimeText(0.25, 0.25), "data 250 of 250 ms");
  EXPECT_EQ(DataTimeText(2e-3, 20.2e-3), "");
  EXPECT_EQ(DataTimeText(0, 0.02), "");
  EXPECT_EQ(DataTimeText(0, 0), "");
}

}  // namespace
}  // namespace plimsoll::trainer
