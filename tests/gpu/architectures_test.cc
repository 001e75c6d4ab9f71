#include "gpu/architectures.h"

#include <gtest/gtest.h>

namespace plimsoll::gpu {
namespace {

TEST(Architectures, CodeRunsOnTheSameMajorFromItsMinorOn) {
  EXPECT_TRUE(HasCodeFor("90", 9, 0));
  EXPECT_TRUE(HasCodeFor("80", 8, 6));
  EXPECT_TRUE(HasCodeFor("75,80,120", 12, 1));
  EXPECT_FALSE(HasCodeFor("86", 8, 0));
  EXPECT_FALSE(HasCodeFor("80", 9, 0));
  EXPECT_FALSE(HasCodeFor("100", 9, 0));
  EXPECT_FALSE(HasCodeFor("", 9, 0));
}

TEST(Architectures, ALetterMeansThisOneOnly) {
  EXPECT_TRUE(HasCodeFor("90a", 9, 0));
  EXPECT_FALSE(HasCodeFor("100a", 10, 3));
  EXPECT_TRUE(HasCodeFor("100a,100", 10, 3));
}

TEST(Architectures, Names) {
  EXPECT_EQ(ArchitectureOf(9, 0), "90");
  EXPECT_EQ(ArchitectureOf(12, 1), "121");
}

}  // namespace
}  // namespace plimsoll::gpu
