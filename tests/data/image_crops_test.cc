#include <gtest/gtest.h>

#include <algorithm>

#include "data/images/image_augmentation.h"

namespace plimsoll::data {
namespace {

ImageBox DrawOf(const ResizedCrop& crop, const ImageSize& image, int64_t sample) {
  SampleRandom random(5, sample, 0);
  return crop.Draw(image, random);
}

TEST(ResizedCrop, KeepsToTheImageAndItsRanges) {
  const ResizedCrop crop;
  const ImageSize image = {120, 200, 3};
  double least = 1, most = 0;
  int64_t lowest = 0, rightmost = 0;
  for (int64_t sample = 0; sample < 2000; ++sample) {
    const ImageBox box = DrawOf(crop, image, sample);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, image.height);
    ASSERT_LE(box.left + box.width, image.width);
    const double part = static_cast<double>(box.height * box.width) / (120 * 200);
    EXPECT_GE(part, 0.08 * 0.97);
    EXPECT_LE(part, 1);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_GE(ratio, 0.75 * 0.97);
    EXPECT_LE(ratio, 4.0 / 3 * 1.03);
    least = std::min(least, part);
    most = std::max(most, part);
    lowest = std::max(lowest, box.top);
    rightmost = std::max(rightmost, box.left);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.7);
  EXPECT_GT(lowest, 60);
  EXPECT_GT(rightmost, 120);
}

// torchvision's fallback, after ten tries that do not fit.
TEST(ResizedCrop, TakesTheMiddleOfWhatIsTooLong) {
  const ResizedCrop whole = {.scale = {1, 1}, .ratio = {0.75, 4.0 / 3}};
  const auto expect = [&](const ImageSize& image, const ImageBox& box) {
    const ImageBox drawn = DrawOf(whole, image, 3);
    EXPECT_EQ(drawn.top, box.top);
    EXPECT_EQ(drawn.left, box.left);
    EXPECT_EQ(drawn.height, box.height);
    EXPECT_EQ(drawn.width, box.width);
  };
  expect({100, 1000, 3}, {0, (1000 - 133) / 2, 100, 133});
  expect({1000, 90, 3}, {(1000 - 120) / 2, 0, 120, 90});
  expect({1, 500, 1}, {0, 249, 1, 1});
  expect({1, 1, 1}, {0, 0, 1, 1});
}

}  // namespace
}  // namespace plimsoll::data
