#include "base/compute_capability.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(ComputeCapability, IsReadAndOrdered) {
  EXPECT_EQ(ParseComputeCapability("8.6"), (ComputeCapability{8, 6}));
  EXPECT_EQ(ParseComputeCapability("12.0"), (ComputeCapability{12, 0}));
  for (const char* text : {"", "8", "8.", ".6", "8.6a", "8.66", "-8.6", "8.-6", " 8.6", "86",
                           "08.6", "3.5", "7.0", "9.1", "99.9"}) {
    EXPECT_EQ(ParseComputeCapability(text), std::nullopt) << text;
  }
  EXPECT_LT((ComputeCapability{8, 9}), (ComputeCapability{9, 0}));
  EXPECT_LT((ComputeCapability{9, 0}), (ComputeCapability{12, 0}));
  EXPECT_EQ((ComputeCapability{12, 1}).text(), "12.1");
}

TEST(ComputeCapability, LimitsAreThoseOfTheProgrammingGuide) {
  EXPECT_EQ((ComputeCapability{7, 5}).shared_bytes(), 64 << 10);
  EXPECT_EQ((ComputeCapability{8, 0}).shared_bytes(), 163 << 10);
  EXPECT_EQ((ComputeCapability{8, 6}).shared_bytes(), 99 << 10);
  EXPECT_EQ((ComputeCapability{8, 9}).shared_bytes(), 99 << 10);
  EXPECT_EQ((ComputeCapability{9, 0}).shared_bytes(), 227 << 10);
  EXPECT_EQ((ComputeCapability{10, 0}).shared_bytes(), 227 << 10);
  EXPECT_EQ((ComputeCapability{12, 0}).shared_bytes(), 99 << 10);
  EXPECT_EQ((ComputeCapability{99, 0}).shared_bytes(), 99 << 10);
}

TEST(ComputeCapability, SaysWhoseKernelsAGpuRuns) {
  const auto runs = [](const char* own, const char* other) {
    return ParseComputeCapability(own)->runs_kernels_of(*ParseComputeCapability(other));
  };
  for (const char* other : {"7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.1"}) {
    EXPECT_TRUE(runs(other, other)) << other;
    EXPECT_TRUE(runs("9.0", other)) << other;
  }
  EXPECT_TRUE(runs("8.0", "8.6"));
  EXPECT_TRUE(runs("12.0", "8.9"));
  EXPECT_FALSE(runs("8.0", "9.0"));    // Hopper's instructions
  EXPECT_FALSE(runs("10.0", "9.0"));   // the same
  EXPECT_FALSE(runs("8.0", "8.9"));    // FP8
  EXPECT_FALSE(runs("7.5", "8.6"));    // bf16
  EXPECT_FALSE(runs("12.0", "10.0"));  // shared memory
}

TEST(ComputeCapability, SaysWhatAGpuHas) {
  EXPECT_TRUE((ComputeCapability{9, 0}).is_hopper());
  EXPECT_FALSE((ComputeCapability{10, 0}).is_hopper());
  EXPECT_FALSE((ComputeCapability{7, 5}).multiplies_bf16());
  EXPECT_FALSE((ComputeCapability{7, 5}).multiplies_tf32());
  EXPECT_TRUE((ComputeCapability{8, 0}).multiplies_bf16());
  EXPECT_FALSE((ComputeCapability{8, 6}).multiplies_float8());
  EXPECT_TRUE((ComputeCapability{8, 9}).multiplies_float8());
  EXPECT_TRUE((ComputeCapability{12, 0}).multiplies_float8());
}

}  // namespace
}  // namespace plimsoll
