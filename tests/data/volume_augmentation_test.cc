#include "data/volumes/volume_augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace plimsoll::data {
namespace {

constexpr uint64_t kSeed = 3;

// Voxels 0, 1, 2, … with the same labels.
Volume Counting(const VolumeSize& size, int64_t channels = 1) {
  Volume volume{.name = "counting",
                .size = size,
                .channels = channels,
                .voxels = std::vector<float>(static_cast<size_t>(size.voxels() * channels)),
                .labels = std::vector<uint8_t>(static_cast<size_t>(size.voxels()))};
  std::iota(volume.voxels.begin(), volume.voxels.end(), 0.0f);
  std::iota(volume.labels.begin(), volume.labels.end(), uint8_t{0});
  return volume;
}

std::vector<int> Voxels(const Volume& volume, const PatchPlace& place, const VolumeSize& patch) {
  std::vector<float> voxels(static_cast<size_t>(patch.voxels() * volume.channels), NAN);
  for (int64_t c = 0; c < volume.channels; ++c) CopyChannel(volume, place, patch, c, {}, voxels);
  return {voxels.begin(), voxels.end()};
}

std::vector<int> Labels(const Volume& volume, const PatchPlace& place, const VolumeSize& patch) {
  std::vector<int32_t> labels(static_cast<size_t>(patch.voxels()), -7);
  CopyLabels(volume, place, patch, labels);
  return {labels.begin(), labels.end()};
}

PatchOrientation Flipped(size_t axis) {
  PatchOrientation orientation;
  orientation.Flip(axis);
  return orientation;
}

PatchOrientation Rotated(size_t a, size_t b) {
  PatchOrientation orientation;
  orientation.Rotate(a, b);
  return orientation;
}

TEST(CopyPatch, TakesTheBoxThatWasAskedFor) {
  const Volume volume = Counting({3, 4, 5});
  const PatchPlace place = {.first = {1, 2, 1}};
  const std::vector<int> expected = {31, 32, 33, 36, 37, 38, 51, 52, 53, 56, 57, 58};
  EXPECT_EQ(Voxels(volume, place, {2, 2, 3}), expected);
  EXPECT_EQ(Labels(volume, place, {2, 2, 3}), expected);
}

TEST(CopyPatch, KeepsChannelsOfAVoxelTogether) {
  EXPECT_EQ(
      Voxels(Counting({1, 2, 3}, 2), {.first = {0, 1, 1}, .orientation = Flipped(2)}, {1, 1, 2}),
      (std::vector<int>{10, 11, 8, 9}));
}

TEST(CopyPatch, FlipsEachAxis) {
  const Volume volume = Counting({2, 2, 2});
  const auto flipped = [&](size_t axis) {
    return Voxels(volume, {.orientation = Flipped(axis)}, volume.size);
  };
  EXPECT_EQ(flipped(0), (std::vector<int>{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(flipped(1), (std::vector<int>{2, 3, 0, 1, 6, 7, 4, 5}));
  EXPECT_EQ(flipped(2), (std::vector<int>{1, 0, 3, 2, 5, 4, 7, 6}));
}

// numpy.rot90(numpy.arange(8).reshape(2, 2, 2), axes=(a, b)).
TEST(CopyPatch, RotatesAsNumpyDoes) {
  const Volume volume = Counting({2, 2, 2});
  const auto rotated = [&](size_t a, size_t b) {
    return Labels(volume, {.orientation = Rotated(a, b)}, volume.size);
  };
  EXPECT_EQ(rotated(1, 2), (std::vector<int>{1, 3, 0, 2, 5, 7, 4, 6}));
  EXPECT_EQ(rotated(0, 1), (std::vector<int>{2, 3, 6, 7, 0, 1, 4, 5}));
  EXPECT_EQ(rotated(0, 2), (std::vector<int>{1, 5, 3, 7, 0, 4, 2, 6}));
  PatchOrientation four = Flipped(1);
  for (int i = 0; i < 4; ++i) four.Rotate(0, 2);
  EXPECT_EQ(four, Flipped(1));
}

// What is drawn after a rotation refers to the patch as it is then.
TEST(CopyPatch, FlipsWhatWasRotated) {
  PatchOrientation orientation = Rotated(1, 2);
  orientation.Flip(2);
  EXPECT_EQ(Voxels(Counting({1, 2, 2}), {.orientation = orientation}, {1, 2, 2}),
            (std::vector<int>{3, 1, 2, 0}));
}

TEST(CopyPatch, PadsBeyondTheVolume) {
  const Volume volume = Counting({1, 2, 2});
  const PatchPlace place = {.first = {-1, -1, -1}};
  EXPECT_EQ(Voxels(volume, place, {2, 3, 4}),
            (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                              0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 3, 0}));
  EXPECT_EQ(Labels(volume, place, {2, 3, 4}),
            (std::vector<int>{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                              -1, -1, -1, -1, -1, 0,  1,  -1, -1, 2,  3,  -1}));
  EXPECT_EQ(Labels(volume, {.first = {0, -1, -1}, .orientation = Flipped(2)}, {1, 3, 4}),
            (std::vector<int>{-1, -1, -1, -1, -1, 1, 0, -1, -1, 3, 2, -1}));
  EXPECT_EQ(Labels(volume, {.first = {0, -1, 0}, .orientation = Rotated(1, 2)}, {1, 3, 3}),
            (std::vector<int>{-1, -1, -1, -1, 1, 3, -1, 0, 2}));
}

TEST(CopyPatch, HasNoLabelsOfAVolumeWithoutThem) {
  Volume volume = Counting({1, 1, 2});
  volume.labels.clear();
  EXPECT_EQ(Labels(volume, {}, volume.size), (std::vector<int>{-1, -1}));
}

// Axes that change places, and signs: how many ways there are.
size_t Orientations(const VolumeAugmentation& augmentation, const VolumeSize& patch) {
  std::set<std::pair<std::array<size_t, 3>, std::array<bool, 3>>> seen;
  for (int64_t sample = 0; sample < 2000; ++sample) {
    const PatchOrientation drawn = augmentation.DrawOrientation(patch, kSeed, sample);
    EXPECT_EQ(drawn, augmentation.DrawOrientation(patch, kSeed, sample));
    seen.insert({drawn.from, drawn.reversed});
  }
  return seen.size();
}

TEST(VolumeAugmentation, DrawsEveryOrientationThatKeepsTheSides) {
  const VolumeAugmentation none, flips = {.flip = true}, turns = {.rotate90 = true},
                                 both = {.flip = true, .rotate90 = true};
  EXPECT_EQ(Orientations(none, {4, 4, 4}), 1u);
  EXPECT_EQ(Orientations(flips, {4, 4, 4}), 8u);
  EXPECT_EQ(Orientations(turns, {4, 4, 4}), 24u);
  EXPECT_EQ(Orientations(both, {4, 4, 4}), 48u);
  EXPECT_EQ(Orientations(turns, {2, 4, 4}), 4u);
  EXPECT_EQ(Orientations(turns, {4, 2, 4}), 4u);
  EXPECT_EQ(Orientations(turns, {4, 4, 2}), 4u);
  EXPECT_EQ(Orientations(both, {2, 3, 4}), 8u);
  for (int64_t sample = 0; sample < 100; ++sample) {
    const PatchOrientation drawn = both.DrawOrientation({4, 2, 4}, kSeed, sample);
    EXPECT_EQ(drawn.from[1], 1u);
  }
}

TEST(VolumeAugmentation, FlipsHalfOfThePatches) {
  const VolumeAugmentation flips = {.flip = true};
  std::array<int, 3> count = {};
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const PatchOrientation drawn = flips.DrawOrientation({4, 4, 4}, kSeed, sample);
    for (size_t axis = 0; axis < 3; ++axis) count[axis] += drawn.reversed[axis];
  }
  for (const int flipped : count) EXPECT_NEAR(flipped, 500, 60);
}

TEST(VolumeAugmentation, ChangesIntensitiesByChannel) {
  const VolumeAugmentation none, change = {.scale = 0.25, .shift = 0.5};
  EXPECT_EQ(none.DrawIntensity(0, kSeed, 5).factor, 1);
  EXPECT_EQ(none.DrawIntensity(0, kSeed, 5).shift, 0);
  float least = 9, most = 0, lowest = 9, highest = -9;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    const IntensityChange drawn = change.DrawIntensity(0, kSeed, sample);
    const IntensityChange other = change.DrawIntensity(1, kSeed, sample);
    EXPECT_NE(drawn.factor, other.factor);
    least = std::min(least, drawn.factor);
    most = std::max(most, drawn.factor);
    lowest = std::min(lowest, drawn.shift);
    highest = std::max(highest, drawn.shift);
  }
  EXPECT_NEAR(least, 0.75, 0.01);
  EXPECT_NEAR(most, 1.25, 0.01);
  EXPECT_NEAR(lowest, -0.5, 0.01);
  EXPECT_NEAR(highest, 0.5, 0.01);

  const Volume volume = Counting({1, 1, 2}, 2);
  std::vector<float> voxels(6, NAN);
  CopyChannel(volume, {}, {1, 1, 3}, 0, {.factor = 2, .shift = 1}, voxels);
  CopyChannel(volume, {}, {1, 1, 3}, 1, {.factor = 0.5f, .shift = -1}, voxels);
  EXPECT_EQ(voxels, (std::vector<float>{1, -0.5f, 5, 0.5f, 0, 0}));  // padding stays 0
}

}  // namespace
}  // namespace plimsoll::data
