#include "trainer/language/sliding_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/volumes/volume_patches.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::trainer {
namespace {

using data::VolumeSize;
using data::VoxelPlace;

// Merges windows of three classes: predict(voxel of the volume, voxel of the window, class).
template <typename Predict>
SlidingWindow Merged(const VolumeSize& volume, const VolumeSize& patch, double overlap,
                     const Predict& predict) {
  SlidingWindow merged(volume, patch, 3);
  for (const data::VolumeWindow& window : data::WindowsOf(volume, patch, overlap)) {
    std::vector<float> logits;
    for (int64_t i = 0; i < patch.voxels(); ++i) {
      const int64_t d = i / (patch.height * patch.width) + window.first[0];
      const int64_t h = i / patch.width % patch.height + window.first[1];
      const int64_t w = i % patch.width + window.first[2];
      const int64_t voxel = (d * volume.height + h) * volume.width + w;
      for (int k = 0; k < 3; ++k) {
        logits.push_back(predict(static_cast<float>(voxel), static_cast<float>(i), k));
      }
    }
    merged.Add(window.first, logits);
  }
  return merged;
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

TEST(SlidingWindow, ConstantLogitsStayConstant) {
  for (const VolumeSize& volume : {VolumeSize{9, 10, 11}, VolumeSize{3, 10, 2}}) {
    const SlidingWindow merged =
        Merged(volume, {4, 5, 6}, 0.5, [](float, float, int k) { return k == 2 ? 1.0f : 2.5f; });
    const std::span<const float> sums = merged.sums();
    ASSERT_EQ(std::ssize(sums), volume.voxels() * 3);
    EXPECT_EQ(std::ssize(sums) * 4, SlidingWindow::Bytes(volume, 3));
    for (size_t i = 0; i < sums.size(); i += 3) {
      ASSERT_GE(sums[i + 2], 1e-3f) << i;  // covered
      EXPECT_NEAR(sums[i] / sums[i + 2], 2.5, 1e-5) << i;
    }
    EXPECT_EQ(merged.Classes(), std::vector<uint8_t>(static_cast<size_t>(volume.voxels())));
  }
}

TEST(SlidingWindow, TheNearerMiddleDecides) {
  // Two windows along W that share voxels 2 and 3: the one says class 1, the other class 2.
  SlidingWindow merged({1, 1, 6}, {1, 1, 4}, 3);
  merged.Add({0, 0, 0}, std::vector<float>{0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0});
  merged.Add({0, 0, 2}, std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1});
  EXPECT_EQ(merged.Classes(), (std::vector<uint8_t>{1, 1, 1, 2, 2, 2}));
  const float near = std::exp(-0.5f), far = std::exp(-4.5f);  // σ is ½
  EXPECT_NEAR(merged.sums()[2 * 3 + 1], near, 1e-6);
  EXPECT_NEAR(merged.sums()[2 * 3 + 2], far, 1e-6);
}

// With a third class whose logits are 1, whose sum is that of the weights
// (make_sliding_window_golden.py).
TEST(SlidingWindow, MergesAsMonaiDoes) {
  for (const nlohmann::json& c :
       nlohmann::json::parse(ReadFile("tests/trainer/sliding_window_golden.json"))) {
    const VolumeSize volume = {c["volume"][0], c["volume"][1], c["volume"][2]};
    const VolumeSize patch = {c["patch"][0], c["patch"][1], c["patch"][2]};
    const std::vector<float> weights = WindowWeights(patch), expected_weights = c["weights"];
    ASSERT_EQ(weights.size(), expected_weights.size());
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected_weights[i], 1e-6);

    const SlidingWindow merged =
        Merged(volume, patch, c["overlap"], [](float voxel, float place, int k) {
          if (k == 2) return 1.0f;
          const auto number = static_cast<float>(k);
          return (number + 1) * voxel + 10 * number * place;
        });
    const std::vector<float> expected = c["logits"];
    ASSERT_EQ(std::ssize(expected), volume.voxels() * 2);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t voxel = i / 2 * 3;
      EXPECT_NEAR(merged.sums()[voxel + i % 2] / merged.sums()[voxel + 2], expected[i],
                  1e-5 * std::abs(expected[i]) + 1e-4)
          << volume.depth << ": " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
