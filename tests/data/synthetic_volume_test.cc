#include "data/volumes/synthetic_volume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kSeed = 7;

// A number that stands for all bits of a volume.
uint64_t Digest(const Volume& volume) {
  uint64_t digest = 0;
  for (const float value : volume.voxels) digest = Hash(digest, std::bit_cast<uint32_t>(value));
  for (const uint8_t label : volume.labels) digest = Hash(digest, label);
  return digest;
}

// By class: how many voxels have it, and the mean and standard deviation of their intensities.
struct Intensities {
  double count = 0, sum = 0, squares = 0;
  double mean() const { return sum / count; }
  double std() const { return std::sqrt(squares / count - mean() * mean()); }
};
std::map<int, Intensities> ByClass(const SyntheticVolumeOptions& options, int64_t volumes) {
  std::map<int, Intensities> classes;
  for (int64_t number = 0; number < volumes; ++number) {
    const Volume volume = MakeSyntheticVolume(options, kSeed, number);
    for (size_t i = 0; i < volume.labels.size(); ++i) {
      Intensities& own = classes[volume.labels[i]];
      const double value = volume.voxels[i * static_cast<size_t>(options.channels)];
      own.count += 1;
      own.sum += value;
      own.squares += value * value;
    }
  }
  return classes;
}

TEST(SyntheticVolume, HasTheSizesThatItWasAskedFor) {
  const Volume volume =
      MakeSyntheticVolume({.size = {6, 9, 11}, .channels = 2, .classes = 3}, kSeed, 12);
  EXPECT_EQ(volume.name, "volume_0012");
  EXPECT_EQ(volume.size, (VolumeSize{6, 9, 11}));
  EXPECT_EQ(volume.channels, 2);
  EXPECT_EQ(volume.voxels.size(), 6u * 9 * 11 * 2);
  EXPECT_EQ(volume.labels.size(), 6u * 9 * 11);
}

TEST(SyntheticVolume, FollowsFromSeedAndNumber) {
  const SyntheticVolumeOptions options = {.size = {16, 20, 18}, .channels = 2, .classes = 4};
  const uint64_t digest = Digest(MakeSyntheticVolume(options, kSeed, 3));
  EXPECT_EQ(Digest(MakeSyntheticVolume(options, kSeed, 3)), digest);
  EXPECT_NE(Digest(MakeSyntheticVolume(options, kSeed, 4)), digest);
  EXPECT_NE(Digest(MakeSyntheticVolume(options, kSeed + 1, 3)), digest);
}

// The bits of one volume, as they are on every machine.
TEST(SyntheticVolume, HasTheSameBitsEverywhere) {
  const Volume volume =
      MakeSyntheticVolume({.size = {8, 24, 40}, .channels = 2, .classes = 3}, kSeed, 1);
  EXPECT_EQ(Digest(volume), 4005081426972756334u);
}

TEST(SyntheticVolume, FillsImagesOrLabelsAlone) {
  const SyntheticVolumeOptions options = {.size = {4, 8, 8}, .channels = 1, .classes = 3};
  const Volume volume = MakeSyntheticVolume(options, kSeed, 5);
  std::vector<float> voxels(volume.voxels.size());
  std::vector<int32_t> labels(volume.labels.size());
  FillSyntheticVolume(options, kSeed, 5, voxels, {});
  FillSyntheticVolume(options, kSeed, 5, {}, labels);
  EXPECT_EQ(voxels, volume.voxels);
  EXPECT_TRUE(std::ranges::equal(labels, volume.labels));
}

// Means differ, and lie within what intensities of the neighbouring class reach.
TEST(SyntheticVolume, IntensitiesTellClassesInPart) {
  for (const VolumeSize size : {VolumeSize{32, 32, 32}, VolumeSize{1, 96, 96}}) {
    const auto classes = ByClass({.size = size, .channels = 1, .classes = 3}, 30);
    ASSERT_EQ(classes.size(), 3u);
    for (const int label : {1, 2}) {
      const Intensities &own = classes.at(label), &below = classes.at(label - 1);
      EXPECT_GT(own.count, 0.02 * 30 * static_cast<double>(size.voxels()));
      EXPECT_GT(own.mean(), below.mean() + 0.4);
      EXPECT_LT(own.mean(), below.mean() + 2 * (own.std() + below.std()));
    }
    EXPECT_GT(classes.at(0).count, 0.5 * 30 * static_cast<double>(size.voxels()));
  }
}

TEST(SyntheticVolume, IsRoughlyNormalised) {
  for (const int64_t classes : {2, 3, 6, 20}) {
    const auto by_class = ByClass({.size = {24, 40, 32}, .channels = 2, .classes = classes}, 20);
    Intensities all;
    for (const auto& [label, own] : by_class) {
      all.count += own.count;
      all.sum += own.sum;
      all.squares += own.squares;
    }
    EXPECT_EQ(std::ssize(by_class), classes);
    EXPECT_NEAR(all.mean(), 0, 0.4) << classes;
    EXPECT_NEAR(all.std(), 1, classes > 8 ? 1 : 0.4) << classes;
  }
}

// An odd class alone fills an ellipsoid's part of the box around it, an even one all of it.
TEST(SyntheticVolume, ClassesHaveTheirShapes) {
  int ellipsoids = 0, boxes = 0;
  for (int64_t number = 0; number < 60; ++number) {
    const VolumeSize size = {40, 40, 40};
    const Volume volume = MakeSyntheticVolume({.size = size, .classes = 3}, kSeed, number);
    for (const int label : {1, 2}) {
      std::array<int64_t, 3> first = {40, 40, 40}, last = {0, 0, 0};
      int64_t count = 0;
      for (int64_t i = 0; i < size.voxels(); ++i) {
        if (volume.labels[static_cast<size_t>(i)] != label) continue;
        const std::array<int64_t, 3> at = {i / 1600, i / 40 % 40, i % 40};
        for (size_t axis = 0; axis < 3; ++axis) {
          first[axis] = std::min(first[axis], at[axis]);
          last[axis] = std::max(last[axis], at[axis]);
        }
        ++count;
      }
      double around = 1;
      for (size_t axis = 0; axis < 3; ++axis) {
        around *= static_cast<double>(last[axis] - first[axis] + 1);
      }
      const double share = static_cast<double>(count) / around;
      if (label == 1) {
        EXPECT_LT(share, 0.65);
        ellipsoids += share > 0.45;
      } else {
        boxes += share == 1;
      }
    }
  }
  EXPECT_GT(ellipsoids, 5);  // those without another object beside or on them
  EXPECT_GT(boxes, 5);
}

}  // namespace
}  // namespace plimsoll::data
