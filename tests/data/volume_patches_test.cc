#include "data/volumes/volume_patches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace plimsoll::data {
namespace {

constexpr uint64_t kSeed = 5;

TEST(ForegroundIndex, HasAllVoxelsOfSmallClasses) {
  const ForegroundIndex index(std::vector<uint8_t>{0, 3, 1, 0, 3, 200, 0});
  EXPECT_EQ(index.classes(), (std::vector<std::vector<int64_t>>{{2}, {1, 4}, {5}}));
  EXPECT_TRUE(ForegroundIndex(std::vector<uint8_t>(9)).classes().empty());
}

TEST(ForegroundIndex, SpreadsOverLargeClasses) {
  constexpr int64_t kMost = ForegroundIndex::kMostVoxels;
  std::vector<uint8_t> labels(kMost * 5, 1);
  for (size_t i = 0; i < labels.size(); i += 2) labels[i] = 0;
  labels[0] = 2;
  const ForegroundIndex index(labels);
  ASSERT_EQ(index.classes().size(), 2u);
  EXPECT_EQ(index.classes()[1], std::vector<int64_t>{0});
  const std::vector<int64_t>& kept = index.classes()[0];
  ASSERT_EQ(std::ssize(kept), kMost);
  for (int64_t i = 0; i < kMost; ++i) {
    const int64_t voxel = kept[static_cast<size_t>(i)];
    EXPECT_EQ(labels[static_cast<size_t>(voxel)], 1);
    // One of each stretch of 2½ voxels of the class, which lie at odd places.
    EXPECT_NEAR(static_cast<double>(voxel), (static_cast<double>(i) + 0.5) * 5, 5) << i;
  }
  std::set<int64_t> within;
  for (size_t i = 0; i < kept.size(); ++i) within.insert(kept[i] - static_cast<int64_t>(i) * 5);
  EXPECT_GT(within.size(), 2u);  // not always the same one
  EXPECT_EQ(ForegroundIndex(labels).classes(), index.classes());
}

TEST(DrawPatch, IsAroundForegroundAsOftenAsAsked) {
  const VolumeSize volume = {20, 30, 40}, patch = {3, 5, 7};
  std::vector<uint8_t> labels(static_cast<size_t>(volume.voxels()));
  const auto at = [&](int64_t d, int64_t h, int64_t w) {
    return static_cast<size_t>((d * 30 + h) * 40 + w);
  };
  // A class of one voxel, and one of many that all give one patch each.
  labels[at(10, 20, 30)] = 1;
  for (int64_t w = 3; w < 37; ++w) labels[at(19, 0, w)] = 2;
  const ForegroundIndex index(labels);
  int first_class = 0, second_class = 0;
  for (int64_t sample = 0; sample < 4000; ++sample) {
    SampleRandom random(kSeed, sample, 0);
    const VoxelPlace first = DrawPatch(volume, patch, index, 0.5, random);
    EXPECT_TRUE(first[0] >= 0 && first[0] <= 17);
    EXPECT_TRUE(first[1] >= 0 && first[1] <= 25);
    EXPECT_TRUE(first[2] >= 0 && first[2] <= 33);
    first_class += first == VoxelPlace{9, 18, 27};
    second_class += first[0] == 17 && first[1] == 0;  // at the border
  }
  EXPECT_NEAR(first_class, 1000, 120);
  EXPECT_NEAR(second_class, 1000, 120);
}

TEST(DrawPatch, IsAnywhereOtherwise) {
  const VolumeSize volume = {4, 5, 6}, patch = {3, 4, 3};
  const ForegroundIndex none(std::vector<uint8_t>(120));
  std::map<VoxelPlace, int> seen;
  for (int64_t sample = 0; sample < 1600; ++sample) {
    SampleRandom random(kSeed, sample, 0);
    ++seen[DrawPatch(volume, patch, none, 1, random)];
  }
  EXPECT_EQ(seen.size(), 16u);
  for (const auto& [first, count] : seen) EXPECT_NEAR(count, 100, 45);
}

TEST(DrawPatch, HasASmallVolumeInItsMiddle) {
  const ForegroundIndex index(std::vector<uint8_t>(2 * 3 * 4, 1));
  for (int64_t sample = 0; sample < 20; ++sample) {
    SampleRandom random(kSeed, sample, 0);
    const VoxelPlace first = DrawPatch({2, 3, 4}, {5, 3, 3}, index, 0.5, random);
    EXPECT_EQ(first[0], -1);
    EXPECT_EQ(first[1], 0);
  }
  const VoxelBox box = CoveredBy({2, 3, 4}, {5, 3, 3}, {-1, 0, 1});
  EXPECT_EQ(box.first, (VoxelPlace{0, 0, 1}));
  EXPECT_EQ(box.end, (VoxelPlace{2, 3, 4}));
  EXPECT_EQ(box.voxels(), 18);
}

std::vector<int64_t> Firsts(int64_t side, int64_t length, double overlap) {
  std::vector<int64_t> firsts;
  for (const VolumeWindow& window : WindowsOf({1, 1, side}, {1, 1, length}, overlap)) {
    firsts.push_back(window.first[2]);
  }
  return firsts;
}

TEST(Windows, OverlapAndEndWithTheVolume) {
  EXPECT_EQ(Firsts(10, 4, 0), (std::vector<int64_t>{0, 4, 6}));
  EXPECT_EQ(Firsts(12, 4, 0), (std::vector<int64_t>{0, 4, 8}));
  EXPECT_EQ(Firsts(10, 4, 0.25), (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(Firsts(10, 4, 0.5), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(Firsts(6, 4, 0.99), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(Firsts(4, 4, 0.5), (std::vector<int64_t>{0}));
  EXPECT_EQ(Firsts(3, 6, 0.5), (std::vector<int64_t>{-1}));
}

TEST(Windows, HaveEachVoxelOnce) {
  const VolumeSize volume = {7, 9, 4}, patch = {3, 4, 6};
  for (const double overlap : {0.0, 0.25, 0.5, 0.8}) {
    std::vector<int> counted(static_cast<size_t>(volume.voxels()));
    int64_t own = 0;
    for (const VolumeWindow& window : WindowsOf(volume, patch, overlap)) {
      own += window.own.voxels();
      std::vector<int32_t> labels(static_cast<size_t>(patch.voxels()));
      KeepOwnLabels(window, patch, labels);
      EXPECT_EQ(std::ranges::count(labels, 0), window.own.voxels());
      for (int64_t i = 0; i < patch.voxels(); ++i) {
        if (labels[static_cast<size_t>(i)] == kUnlabelled) continue;
        const int64_t d = window.first[0] + i / 24, h = window.first[1] + i / 6 % 4,
                      w = window.first[2] + i % 6;
        ASSERT_TRUE(d >= 0 && d < 7 && h >= 0 && h < 9 && w >= 0 && w < 4);
        ++counted[static_cast<size_t>((d * 9 + h) * 4 + w)];
      }
    }
    EXPECT_EQ(own, volume.voxels());
    EXPECT_EQ(CountWindows(volume, patch, overlap), std::ssize(WindowsOf(volume, patch, overlap)));
    EXPECT_EQ(std::ranges::count(counted, 1), volume.voxels()) << overlap;
  }
}

// A voxel belongs to the window in whose middle it is.
TEST(Windows, ShareTheirOverlap) {
  const auto windows = WindowsOf({1, 1, 10}, {1, 1, 6}, 0.5);
  ASSERT_EQ(windows.size(), 3u);  // from 0, 3 and 4 on
  EXPECT_EQ(windows[0].own.end[2], 4);
  EXPECT_EQ(windows[1].own.first[2], 4);
  EXPECT_EQ(windows[1].own.end[2], 6);
  EXPECT_EQ(windows[2].own.first[2], 6);
  EXPECT_EQ(windows[2].own.end[2], 10);
}

}  // namespace
}  // namespace plimsoll::data
