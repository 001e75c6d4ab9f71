#include "base/spelling.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Spelling, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("dtype", "dtpye"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Spelling, TheNearestName) {
  const std::vector<std::string> names = {"linear", "layer_norm", "rms_norm", "gelu", "silu"};
  EXPECT_EQ(NearestName("liner", names), "linear");
  EXPECT_EQ(NearestName("layernorm", names), "layer_norm");
  EXPECT_EQ(NearestName("elu", names), "gelu") << "the first of two as near";
  EXPECT_EQ(NearestName("linear", names), "linear");
}

TEST(Spelling, NothingIsNear) {
  const std::vector<std::string> names = {"linear", "gelu"};
  EXPECT_EQ(NearestName("tanh", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName("linear", {}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), {std::string(100000, 'x')}), "");
}

TEST(Spelling, LongTextIsCutInItsMiddle) {
  EXPECT_EQ(Shortened("name"), "name");
  EXPECT_EQ(Shortened(std::string(120, 'x')), std::string(120, 'x'));
  EXPECT_EQ(Shortened(std::string(500, 'x') + std::string(500, 'y')),
            std::string(80, 'x') + "…" + std::string(40, 'y'));
  // "é" has two bytes: neither cut may split it.
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "é";
  EXPECT_EQ(Shortened("x" + accents).size(), 1u + 78 + 3 + 40);
}

}  // namespace
}  // namespace plimsoll
