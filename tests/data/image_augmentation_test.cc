#include "data/images/image_augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace plimsoll::data {
namespace {

// Bytes stay what they are, times 1/255.
NormalisedBytes Unchanged(size_t channels) {
  return NormalisedBytes({std::vector<double>(channels, 0), std::vector<double>(channels, 1)});
}

std::vector<int> Drawn(const std::vector<uint8_t>& pixels, const ImageSize& image,
                       const Placement& placement, const ImageSize& canvas) {
  std::vector<float> out(static_cast<size_t>(canvas.elements()), -1);
  DrawImage(pixels, image, placement, Unchanged(static_cast<size_t>(image.channels)), canvas, out);
  std::vector<int> bytes;
  for (const float value : out) bytes.push_back(static_cast<int>(std::lround(value * 255)));
  return bytes;
}

TEST(DrawImage, PadsCutsAndFlips) {
  const ImageSize image = {2, 3, 1}, same = {2, 3, 1}, large = {5, 5, 1};
  const std::vector<uint8_t> pixels = {1, 2, 3,  //
                                       4, 5, 6};
  EXPECT_EQ(Drawn(pixels, image, {0, 0, false}, same), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Drawn(pixels, image, {0, 0, true}, same), (std::vector<int>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(Drawn(pixels, image, {1, -1, false}, same), (std::vector<int>{0, 0, 0, 2, 3, 0}));
  // Cut first, then flipped.
  EXPECT_EQ(Drawn(pixels, image, {1, -1, true}, same), (std::vector<int>{0, 0, 0, 0, 3, 2}));
  EXPECT_EQ(Drawn(pixels, image, {-1, 2, false}, same), (std::vector<int>{0, 0, 4, 0, 0, 0}));
  EXPECT_EQ(Drawn(pixels, image, {5, 5, false}, same), std::vector<int>(6, 0));
  EXPECT_EQ(Drawn(pixels, image, Centred(image, large), large), (std::vector<int>{0, 0, 0, 0, 0,  //
                                                                                  0, 1, 2, 3, 0,  //
                                                                                  0, 4, 5, 6, 0,  //
                                                                                  0, 0, 0, 0, 0,  //
                                                                                  0, 0, 0, 0, 0}));
  // Channels of a pixel stay together.
  EXPECT_EQ(Drawn({1, 2, 3, 4}, {1, 2, 2}, {0, 0, true}, {1, 3, 2}),
            (std::vector<int>{0, 0, 3, 4, 1, 2}));
}

TEST(DrawImage, NormalisesPaddingAsZeros) {
  const NormalisedBytes normalised({{0.25, 0.5}, {0.5, 0.125}});
  std::vector<float> out(4);
  DrawImage(std::vector<uint8_t>{51, 255}, {1, 1, 2}, {}, normalised, {1, 2, 2}, out);
  EXPECT_EQ(out, (std::vector<float>{(51 / 255.0f - 0.25f) / 0.5f, 4, -0.5f, -4}));
}

// As PyTorch computes it: each operation in float32.
TEST(NormalisedBytes, AreExact) {
  const double means[] = {0.4914, 0.4822, 0.4465}, stds[] = {0.2470, 0.2435, 0.2616};
  const NormalisedBytes normalised({{means[0], means[1], means[2]}, {stds[0], stds[1], stds[2]}});
  ASSERT_EQ(normalised.channels(), 3);
  for (int c = 0; c < 3; ++c) {
    for (int byte = 0; byte < 256; ++byte) {
      const float scaled = static_cast<float>(byte) / 255.0f;
      const float centred = scaled - static_cast<float>(means[c]);
      EXPECT_EQ(normalised(c, static_cast<uint8_t>(byte)), centred / static_cast<float>(stds[c]));
    }
  }
}

TEST(Statistics, AreThoseOfEachChannel) {
  LabelledImages images{
      .size = {2, 1, 2}, .pixels = {0, 7, 255, 7, 255, 7, 0, 7}, .labels = {0, 1}};
  const ChannelStatistics statistics = StatisticsOf(images);
  EXPECT_DOUBLE_EQ(statistics.mean[0], 0.5);
  EXPECT_DOUBLE_EQ(statistics.std[0], 0.5);
  EXPECT_DOUBLE_EQ(statistics.mean[1], 7 / 255.0);
  EXPECT_EQ(statistics.std[1], 0);
  images.size = {1, 1, 1};
  images.labels.resize(8);
  images.pixels = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_DOUBLE_EQ(StatisticsOf(images).std[0], std::sqrt(63 / 12.0) / 255);
}

TEST(Augmentation, DependsOnSeedAndNumberAlone) {
  const Augmentation both = {.crop_padding = 4, .flip = true};
  const auto same = [](const Placement& a, const Placement& b) {
    return a.top == b.top && a.left == b.left && a.flipped == b.flipped;
  };
  int by_seed = 0, by_number = 0;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const Placement drawn = both.Draw({}, 1, sample);
    EXPECT_TRUE(same(drawn, both.Draw({}, 1, sample)));
    by_seed += same(drawn, both.Draw({}, 2, sample));
    by_number += same(drawn, both.Draw({}, 1, sample + 1));
  }
  // One in 9 · 9 · 2 by chance: 6.2 ± 2.5.
  EXPECT_LT(by_seed, 20);
  EXPECT_LT(by_number, 20);
}

TEST(Augmentation, DoesOnlyWhatItIsAskedFor) {
  for (int64_t sample = 0; sample < 100; ++sample) {
    const Placement drawn = Augmentation{}.Draw({.top = 2, .left = 3}, 1, sample);
    EXPECT_EQ(drawn.top, 2);
    EXPECT_EQ(drawn.left, 3);
    EXPECT_FALSE(drawn.flipped);
    EXPECT_FALSE((Augmentation{.crop_padding = 4}).Draw({}, 1, sample).flipped);
    EXPECT_EQ((Augmentation{.flip = true}).Draw({}, 1, sample).top, 0);
  }
}

// Every shift of −p … p comes equally often, independently in both directions, and so do flips:
// within five standard deviations of the binomial's mean.
TEST(Augmentation, IsUniform) {
  constexpr int64_t kPadding = 2, kSamples = 100'000;
  const Augmentation both = {.crop_padding = kPadding, .flip = true};
  std::map<std::array<int64_t, 3>, int64_t> counts;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const Placement drawn = both.Draw({.top = 10, .left = 20}, 5, sample);
    EXPECT_LE(std::abs(drawn.top - 10), kPadding);
    EXPECT_LE(std::abs(drawn.left - 20), kPadding);
    ++counts[{drawn.top, drawn.left, drawn.flipped}];
  }
  ASSERT_EQ(counts.size(), 5u * 5 * 2);
  const double p = 1 / 50.0, deviation = std::sqrt(kSamples * p * (1 - p));
  for (const auto& [placement, count] : counts) {
    EXPECT_NEAR(static_cast<double>(count), kSamples * p, 5 * deviation);
  }
}

}  // namespace
}  // namespace plimsoll::data
