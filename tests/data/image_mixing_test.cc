#include "data/images/image_mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll::data {
namespace {

constexpr int64_t kDraws = 20000;

// Mean ½ and variance 1 / (4 (2α + 1)) of Beta(α, α).
TEST(SampleRandom, DrawsBeta) {
  for (const double alpha : {0.05, 0.2, 0.8, 1.0, 2.5}) {
    double sum = 0, squares = 0;
    for (int64_t sample = 0; sample < kDraws; ++sample) {
      const double x = SampleRandom(7, sample, 1).Beta(alpha);
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    const double expected = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(mean, 0.5, 6 * std::sqrt(expected / kDraws)) << alpha;
    EXPECT_NEAR(variance, expected, 0.05 * expected) << alpha;
  }
}

TEST(SampleRandom, FollowsFromSeedSampleAndPurpose) {
  const auto first = [](uint64_t seed, int64_t sample, uint64_t purpose) {
    return SampleRandom(seed, sample, purpose).Below(1 << 30);
  };
  EXPECT_EQ(first(1, 2, 3), first(1, 2, 3));
  EXPECT_NE(first(1, 2, 3), first(2, 2, 3));
  EXPECT_NE(first(1, 2, 3), first(1, 3, 3));
  EXPECT_NE(first(1, 2, 3), first(1, 2, 4));
}

TEST(MixImages, MixupIsTheWeightedMean) {
  const ImageSize size = {2, 2, 1};
  std::vector<float> own = {1, 2, 3, 4};
  MixImages({.own_share = 0.75, .cut = {}}, size, own, std::vector<float>{5, 6, 7, 8});
  EXPECT_EQ(own, (std::vector<float>{2, 3, 4, 5}));
}

TEST(MixImages, CutMixTakesABox) {
  const ImageSize size = {2, 3, 2};
  std::vector<float> own(12, 1);
  MixImages({.own_share = 0.5, .cut = ImageBox{0, 1, 2, 2}}, size, own, std::vector<float>(12, 9));
  EXPECT_EQ(own, (std::vector<float>{1, 1, 9, 9, 9, 9, 1, 1, 9, 9, 9, 9}));
}

// The share is that of the pixels that stay; a box may be cut off at the edges, or be empty.
TEST(ImageMixing, TheShareIsThatOfThePixels) {
  const ImageSize size = {12, 8, 1};
  double covered = 0;
  for (int64_t sample = 0; sample < kDraws; ++sample) {
    SampleRandom random(3, sample, 1);
    const ImageMix mix = ImageMixing{.mixup = 0, .cutmix = 1}.Draw(size, random);
    ASSERT_TRUE(mix.cut);
    const ImageBox& box = *mix.cut;
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height >= 0 && box.width >= 0);
    ASSERT_TRUE(box.top + box.height <= 12 && box.left + box.width <= 8);
    std::vector<float> own(96, 0);
    MixImages(mix, size, own, std::vector<float>(96, 1));
    double taken = 0;
    for (const float value : own) taken += value;
    ASSERT_DOUBLE_EQ(mix.own_share, 1 - taken / 96);
    covered += taken / 96;
  }
  EXPECT_GT(covered / kDraws, 0.2);
  EXPECT_LT(covered / kDraws, 0.5);
}

TEST(ImageMixing, TakesEitherWayInHalfOfTheSamples) {
  int64_t cuts = 0;
  for (int64_t sample = 0; sample < kDraws; ++sample) {
    SampleRandom random(3, sample, 1);
    cuts += ImageMixing{.mixup = 0.8, .cutmix = 1}.Draw({8, 8, 3}, random).cut.has_value();
  }
  // Six standard deviations.
  EXPECT_NEAR(static_cast<double>(cuts), kDraws / 2, 6 * std::sqrt(kDraws / 4.0));
}

}  // namespace
}  // namespace plimsoll::data
