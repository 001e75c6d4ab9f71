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

TEST(Counted, NounsAgreeWithTheirNumber) {
  EXPECT_EQ(Counted(0, "step"), "0 steps");
  EXPECT_EQ(Counted(1, "sequence"), "1 sequence");
  EXPECT_EQ(Counted(-1, "step"), "-1 steps");
  EXPECT_EQ(Counted(12345, "token"), "12345 tokens");
  EXPECT_EQ(Counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(Counted(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(Counted(2, "held-out class"), "2 held-out classes");
  EXPECT_EQ(Counted(2, "epoch"), "2 epochs");
  EXPECT_EQ(Counted(2, "box"), "2 boxes");
  EXPECT_EQ(Counted(2, "entry"), "2 entries");
  EXPECT_EQ(Counted(2, "day"), "2 days");
}

TEST(Counted, TakesNumbersAsTheyAreFormatted) {
  EXPECT_EQ(Counted("1", "epoch"), "1 epoch");
  EXPECT_EQ(Counted("1.0", "epoch"), "1.0 epochs");
  EXPECT_EQ(Counted("85.2k", "parameter"), "85.2k parameters");
}

TEST(FormatWithDeviation, KeepsTheDigitsThatMeanSomething) {
  EXPECT_EQ(FormatWithDeviation(0.0096657, 0.0089), "0.010 ± 0.009");
  EXPECT_EQ(FormatWithDeviation(2.80581, 0.01234), "2.806 ± 0.012");
  EXPECT_EQ(FormatWithDeviation(2.80581, 0.0354), "2.806 ± 0.035");
  EXPECT_EQ(FormatWithDeviation(2.80581, 0.0356), "2.81 ± 0.04");
  EXPECT_EQ(FormatWithDeviation(2.80581, 0.0097), "2.806 ± 0.010");
  EXPECT_EQ(FormatWithDeviation(-0.5, 0.125, true), "-0.50 ± 0.12");
  EXPECT_EQ(FormatWithDeviation(0.0096657, 0.0089, true), "+0.010 ± 0.009");
  EXPECT_EQ(FormatWithDeviation(2.5, 0.7071), "2.5 ± 0.7");
  EXPECT_EQ(FormatWithDeviation(12345.6, 1234.5), "12346 ± 1234");
  EXPECT_EQ(FormatWithDeviation(1.234e-7, 2.9e-8), "(1.23 ± 0.29)e-07");
  EXPECT_EQ(FormatWithDeviation(-1.234e-7, 4.4e-6, true), "(-0 ± 4)e-06");
}

}  // namespace
}  // namespace plimsoll
