#include "gpu/architectures.h"

#include <gtest/gtest.h>

namespace plimsoll::gpu {
namespace {

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
  constexpr const char* kAll = "80,90,100,120+ptx";
  EXPECT_TRUE(HasCodeFor(kAll, {8, 9}));
  EXPECT_TRUE(HasCodeFor(kAll, {10, 3}));
  EXPECT_TRUE(HasCodeFor(kAll, {12, 1}));
  EXPECT_TRUE(HasCodeFor(kAll, {13, 0}));
  EXPECT_FALSE(HasCodeFor(kAll, {7, 5}));
  EXPECT_FALSE(HasCodeFor(kAll, {11, 0}));
  EXPECT_TRUE(HasCodeFor("80+ptx", {9, 0}));
  EXPECT_FALSE(HasCodeFor("86+ptx", {8, 0}));
}

TEST(Architectures, FeaturesOfOneRunAsCodeOfAnother) {
  EXPECT_TRUE(HasCodeFor("80:90", {9, 0}));
  EXPECT_FALSE(HasCodeFor("80:90", {8, 0}));
}

TEST(Architectures, HopperHasKernelsOfItsOwn) {
  EXPECT_TRUE(HasHopperCode("90"));
  EXPECT_TRUE(HasHopperCode("80,90a,120+ptx"));
  EXPECT_FALSE(HasHopperCode("80:90"));
  EXPECT_FALSE(HasHopperCode("80+ptx"));
}

}  // namespace
}  // namespace plimsoll::gpu
