#include "base/amounts.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(FormatDuration, TakesTheUnitsThatMatter) {
  EXPECT_EQ(FormatDuration(0), "0s");
  EXPECT_EQ(FormatDuration(59.4), "59s");
  EXPECT_EQ(FormatDuration(59.6), "1m00s");
  EXPECT_EQ(FormatDuration(185), "3m05s");
  EXPECT_EQ(FormatDuration(3720), "1h02m");
  EXPECT_EQ(FormatDuration(100 * 3600), "100h00m");
}

TEST(FormatCount, KeepsThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(38'100), "38.1k");
  EXPECT_EQ(FormatCount(1.24e6), "1.24M");
  EXPECT_EQ(FormatCount(70e9), "70G");
  EXPECT_EQ(FormatCount(1.5e13), "15T");
}

}  // namespace
}  // namespace plimsoll
