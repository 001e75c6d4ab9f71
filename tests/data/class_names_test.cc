// Warnings of data that number their classes otherwise than a model.
#include "data/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::data {
namespace {

using Names = std::vector<std::string>;

TEST(OtherClasses, AreNamedByTheFirstThatDiffers) {
  EXPECT_EQ(OtherClassesText(Names{"a", "b"}, Names{"a", "b"}), "");
  EXPECT_EQ(OtherClassesText(Names{}, Names{"a", "b"}), "");
  EXPECT_EQ(OtherClassesText(Names{"a", "b"}, Names{}), "");
  EXPECT_THAT(OtherClassesText(Names{"a", "b", "c"}, Names{"a", "c", "z"}),
              testing::StartsWith("class 1 is c in the data, and b where the model was trained: "));
}

}  // namespace
}  // namespace plimsoll::data
