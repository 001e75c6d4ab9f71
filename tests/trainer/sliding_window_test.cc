#include "trainer/language/sliding_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "data/volumes/volume_patches.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::trainer {
namespace {

using data::VolumeSize;
using data::VolumeWindow;
using data::VoxelPlace;

constexpr int64_t kClasses = 3;

// predict(voxel of the volume, voxel of the window, class): the logits [D,H,W,K] of a window.
template <typename Predict>
std::vector<float> LogitsOf(const VolumeSize& volume, const VolumeSize& patch,
                            const VoxelPlace& first, const Predict& predict) {
  std::vector<float> logits;
  for (int64_t i = 0; i < patch.voxels(); ++i) {
    const int64_t d = i / (patch.height * patch.width) + first[0];
    const int64_t h = i / patch.width % patch.height + first[1];
    const int64_t w = i % patch.width + first[2];
    const int64_t voxel = (d * volume.height + h) * volume.width + w;
    for (int k = 0; k < kClasses; ++k) {
      logits.push_back(predict(static_cast<float>(voxel), static_cast<float>(i), k));
    }
  }
  return logits;
}

// A volume of which all slices are finished.
struct Merged {
  std::vector<float> logits;      // [D,H,W,K]
  std::set<const float*> places;  // where slices lay when they were finished
};

// Merges the windows, and expects that slices are finished once, and as soon as no window reaches
// them.
template <typename Predict>
Merged Merge(const VolumeSize& volume, const VolumeSize& patch, double overlap,
             const Predict& predict) {
  Merged merged;
  int64_t finished = 0;
  const std::vector<VolumeWindow> windows = data::WindowsOf(volume, patch, overlap);
  const auto finish = [&](std::span<const float> logits) {
    ++finished;
    EXPECT_EQ(std::ssize(logits), volume.height * volume.width * kClasses);
    merged.places.insert(logits.data());
    merged.logits.insert(merged.logits.end(), logits.begin(), logits.end());
  };
  SlidingWindow sliding(volume, patch, windows, kClasses, finish);
  for (const VolumeWindow& window : windows) {
    sliding.Add(LogitsOf(volume, patch, window.first, predict));
    EXPECT_EQ(finished, std::max<int64_t>(0, window.first[0]));
  }
  sliding.Finish();
  EXPECT_EQ(finished, volume.depth);
  return merged;
}

// The weighted means [D,H,W,K] of the volume, with all sums held at a time.
template <typename Predict>
std::vector<float> PlainMeans(const VolumeSize& volume, const VolumeSize& patch, double overlap,
                              const Predict& predict) {
  const std::vector<float> weights = WindowWeights(patch);
  std::vector<float> sums(static_cast<size_t>(volume.voxels() * kClasses));
  std::vector<float> totals(static_cast<size_t>(volume.voxels()));
  for (const VolumeWindow& window : data::WindowsOf(volume, patch, overlap)) {
    const std::vector<float> logits = LogitsOf(volume, patch, window.first, predict);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto voxel = static_cast<int64_t>(i);
      const int64_t d = voxel / (patch.height * patch.width) + window.first[0];
      const int64_t h = voxel / patch.width % patch.height + window.first[1];
      const int64_t w = voxel % patch.width + window.first[2];
      if (d < 0 || d >= volume.depth || h < 0 || h >= volume.height || w < 0 || w >= volume.width) {
        continue;
      }
      const auto at = static_cast<size_t>((d * volume.height + h) * volume.width + w);
      totals[at] += weights[i];
      for (size_t k = 0; k < kClasses; ++k) {
        sums[at * kClasses + k] += weights[i] * logits[i * kClasses + k];
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= totals[i / kClasses];
  return sums;
}

TEST(WindowWeights, AreGaussianWithAFloor) {
  // σ is ½ of a voxel along H and 1 along W; the middles lie between voxels.
  const std::vector<float> weights = WindowWeights({1, 4, 8});
  ASSERT_EQ(weights.size(), 32u);
  EXPECT_NEAR(weights[1 * 8 + 3], std::exp(-0.5 - 0.125), 1e-6);
  EXPECT_NEAR(weights[2 * 8 + 4], weights[1 * 8 + 3], 1e-7);
  EXPECT_NEAR(weights[1 * 8 + 6], std::exp(-0.5 - 3.125), 1e-6);
  EXPECT_FLOAT_EQ(weights[0], 1e-3f);  // exp(−4.5 − 6.125) without the floor
}

TEST(SlidingWindow, HasTheBitsOfMeansThatAreHeldAtATime) {
  // Powers of two, whose products with weights are exact: only the order of additions matters,
  // however products and additions are compiled.
  const auto logit = [](float voxel, float place, int k) {
    const int number = static_cast<int>(5 * voxel) + static_cast<int>(3 * place) + 7 * k;
    return std::ldexp(number % 2 == 0 ? 1.0f : -1.0f, number % 11 - 5);
  };
  struct Case {
    VolumeSize volume, patch;
    double overlap;
  };
  for (const auto& [volume, patch, overlap] :
       std::vector<Case>{{{17, 13, 11}, {4, 5, 3}, 0.5},  // several windows along each axis
                         {{17, 13, 11}, {5, 4, 4}, 0.4},  // strides that don't divide the rest
                         {{17, 6, 7}, {5, 3, 3}, 0.8},    // a slice lies in many windows
                         {{9, 6, 7}, {3, 3, 3}, 0},       // no overlap
                         {{9, 6, 7}, {4, 3, 3}, 0},       // but that of the last windows
                         {{7, 6, 7}, {1, 3, 3}, 0.5},     // slices
                         {{6, 6, 7}, {6, 3, 3}, 0.5},     // one window along D
                         {{3, 9, 10}, {8, 4, 5}, 0.5},    // deeper than the volume
                         {{9, 3, 10}, {4, 8, 5}, 0.5},    // higher
                         {{2, 3, 4}, {5, 6, 7}, 0.5}}) {  // larger along each axis
    SCOPED_TRACE(testing::Message() << volume.depth << ", " << patch.depth << ", " << overlap);
    const Merged merged = Merge(volume, patch, overlap, logit);
    EXPECT_EQ(merged.logits, PlainMeans(volume, patch, overlap, logit));
    // The memory of a window's slices, which is used again.
    const int64_t slices = std::min(volume.depth, patch.depth);
    EXPECT_EQ(std::ssize(merged.places), slices);
    EXPECT_EQ(*merged.places.rbegin() - *merged.places.begin(),
              (slices - 1) * volume.height * volume.width * kClasses);
    EXPECT_EQ(SlidingWindow::Slices(volume, patch), slices);
    EXPECT_EQ(SlidingWindow::Bytes(volume, patch, kClasses),
              4 * ((slices * kClasses + 1) * volume.height * volume.width + patch.voxels()));
  }
}

TEST(SlidingWindow, WindowsComeInOrderAndAllOfThem) {
  const std::vector<VolumeWindow> windows = {
      {.first = {0, 0, 0}}, {.first = {3, 0, 0}}, {.first = {3, 0, 0}}, {.first = {2, 0, 0}}};
  SlidingWindow merged({6, 1, 1}, {2, 1, 1}, windows, 1, [](std::span<const float>) {});
  const std::vector<float> logits(2);
  for (int i = 0; i < 3; ++i) merged.Add(logits);
  ExpectInternalError([&] { merged.Finish(); }, {"has not been added"});
  ExpectInternalError([&] { merged.Add(logits); }, {"begins in a finished slice"});
}

TEST(SlidingWindow, ConstantLogitsStayConstant) {
  for (const VolumeSize& volume : {VolumeSize{9, 10, 11}, VolumeSize{3, 10, 2}}) {
    const Merged merged =
        Merge(volume, {4, 5, 6}, 0.5, [](float, float, int k) { return k == 2 ? 1.0f : 2.5f; });
    ASSERT_EQ(std::ssize(merged.logits), volume.voxels() * kClasses);
    for (size_t i = 0; i < merged.logits.size(); ++i) {
      EXPECT_NEAR(merged.logits[i], i % kClasses == 2 ? 1 : 2.5, 1e-5) << i;
    }
  }
}

TEST(SlidingWindow, TheNearerMiddleDecides) {
  // Two windows along W that share voxels 2 and 3: the one says class 1, the other class 2.
  std::vector<float> logits;
  const std::vector<VolumeWindow> windows = {{.first = {0, 0, 0}}, {.first = {0, 0, 2}}};
  SlidingWindow merged({1, 1, 6}, {1, 1, 4}, windows, kClasses, [&](std::span<const float> slice) {
    logits.assign(slice.begin(), slice.end());
  });
  merged.Add(std::vector<float>{0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0});
  merged.Add(std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1});
  merged.Finish();
  const float near = std::exp(-0.5f), far = std::exp(-4.5f);  // σ is ½
  EXPECT_NEAR(logits[1 * 3 + 1], 1, 1e-6);
  EXPECT_NEAR(logits[2 * 3 + 1], near / (near + far), 1e-6);
  EXPECT_NEAR(logits[2 * 3 + 2], far / (near + far), 1e-6);
}

// Expected numbers are by make_sliding_window_golden.py, which has two classes.
TEST(SlidingWindow, MergesAsMonaiDoes) {
  for (const nlohmann::json& c :
       nlohmann::json::parse(ReadFile("tests/trainer/sliding_window_golden.json"))) {
    const VolumeSize volume = {c["volume"][0], c["volume"][1], c["volume"][2]};
    const VolumeSize patch = {c["patch"][0], c["patch"][1], c["patch"][2]};
    const std::vector<float> weights = WindowWeights(patch), expected_weights = c["weights"];
    ASSERT_EQ(weights.size(), expected_weights.size());
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected_weights[i], 1e-6);

    const Merged merged = Merge(volume, patch, c["overlap"], [](float voxel, float place, int k) {
      const auto number = static_cast<float>(k);
      return (number + 1) * voxel + 10 * number * place;
    });
    const std::vector<float> expected = c["logits"];
    ASSERT_EQ(std::ssize(expected), volume.voxels() * 2);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(merged.logits[i / 2 * kClasses + i % 2], expected[i],
                  1e-5 * std::abs(expected[i]) + 1e-4)
          << volume.depth << ": " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
