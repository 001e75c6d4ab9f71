#include "gpu/architectures.h"

#include <gtest/gtest.h>

namespace plimsoll::gpu {
namespace {

// What cuda_all builds (.bazelrc): code of 10.0 and 12.0 has the features of 9.0.
constexpr const char* kAll = "80,90,90:100,90:120+ptx";

TEST(Architectures, CodeRunsOnLaterGpusOfTheSameGeneration) {
  EXPECT_TRUE(HasCodeFor("90", {9, 0}));
  EXPECT_TRUE(HasCodeFor("80", {8, 6}));
  EXPECT_TRUE(HasCodeFor("75,80,120", {12, 1}));
  EXPECT_FALSE(HasCodeFor("86", {8, 0}));
  EXPECT_FALSE(HasCodeFor("80", {9, 0}));
  EXPECT_FALSE(HasCodeFor("100", {9, 0}));
  EXPECT_FALSE(HasCodeFor("", {9, 0}));
}

TEST(Architectures, CodeWithALetterRunsOnOneGpuOnly) {
  EXPECT_TRUE(HasCodeFor("90a", {9, 0}));
  EXPECT_FALSE(HasCodeFor("100a", {10, 3}));
  EXPECT_TRUE(HasCodeFor("100a,100", {10, 3}));
}

TEST(Architectures, PtxRunsOnAllLaterGpus) {
  EXPECT_TRUE(HasCodeFor(kAll, {8, 9}));
  EXPECT_TRUE(HasCodeFor(kAll, {10, 3}));
  EXPECT_TRUE(HasCodeFor(kAll, {12, 1}));
  EXPECT_TRUE(HasCodeFor(kAll, {13, 0}));
  EXPECT_FALSE(HasCodeFor(kAll, {7, 5}));
  EXPECT_TRUE(HasCodeFor(kAll, {11, 0}));
  EXPECT_TRUE(HasCodeFor("80+ptx", {9, 0}));
  EXPECT_FALSE(HasCodeFor("86+ptx", {8, 0}));
  EXPECT_FALSE(HasCodeFor("120+ptx", {11, 0}));
}

TEST(Architectures, FeaturesOfOneRunAsCodeOfAnother) {
  EXPECT_TRUE(HasCodeFor("80:90", {9, 0}));
  EXPECT_FALSE(HasCodeFor("80:90", {8, 0}));
}

TEST(Architectures, KernelsAreChosenByTheFeaturesOfTheCode) {
  const auto chosen = [](const char* list, ComputeCapability gpu) {
    return KernelCapability(list, gpu, gpu);
  };
  constexpr ComputeCapability kAmpere{8, 0}, kHopper{9, 0}, kBlackwell{12, 0};
  EXPECT_EQ(chosen(kAll, kHopper), kHopper);
  EXPECT_EQ(chosen(kAll, {8, 9}), (ComputeCapability{8, 9}));
  EXPECT_EQ(chosen(kAll, kBlackwell), kBlackwell);
  EXPECT_EQ(chosen(kAll, {13, 0}), (ComputeCapability{13, 0}));
  EXPECT_EQ(chosen("90+ptx", kBlackwell), kBlackwell);
  EXPECT_EQ(chosen("80:90", kHopper), kAmpere);
  EXPECT_EQ(chosen("89:90", kHopper), (ComputeCapability{8, 9}));
  EXPECT_EQ(chosen("80+ptx", kHopper), kAmpere);
  // It has less shared memory than 8.0.
  EXPECT_EQ(chosen("80+ptx", kBlackwell), (ComputeCapability{8, 6}));
  EXPECT_EQ(chosen("75+ptx", kAmpere), (ComputeCapability{7, 5}));
  EXPECT_EQ(chosen("90", kAmpere), kAmpere) << "no code at all";
}

TEST(Architectures, AnotherGpusKernelsAreChosenIfTheCodeHasItsFeatures) {
  constexpr ComputeCapability kRtx3090{8, 6}, kHopper{9, 0}, kBlackwell{12, 0};
  EXPECT_EQ(KernelCapability("90", kHopper, kRtx3090), kRtx3090);
  EXPECT_EQ(KernelCapability("90", kHopper, kBlackwell), kBlackwell);
  EXPECT_EQ(KernelCapability("80:90", kHopper, kRtx3090), kRtx3090);
  EXPECT_EQ(KernelCapability("80:90", kHopper, kBlackwell), kRtx3090);
}

}  // namespace
}  // namespace plimsoll::gpu
