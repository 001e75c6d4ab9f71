#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "data/volumes/volume_preparation.h"

namespace plimsoll::data {
namespace {

std::vector<float> Normalised(const VolumeNormalisation& normalisation, int64_t channels,
                              std::vector<float> voxels) {
  Volume volume{.name = "liver_3",
                .size = {1, 1, static_cast<int64_t>(voxels.size()) / channels},
                .channels = channels,
                .voxels = std::move(voxels),
                .labels = {}};
  Normalise(normalisation, volume);
  return volume.voxels;
}

TEST(VolumeNormalisation, GivesEachChannelMean0AndStd1) {
  // Channel 0: 1, 3, 5, 7 (mean 4, std √5); channel 1: all 9.
  const auto voxels = Normalised({}, 2, {1, 9, 3, 9, 5, 9, 7, 9});
  const auto unit = static_cast<float>(1 / std::sqrt(5.0));
  const std::vector<float> expected = {-3 * unit, 0, -unit, 0, unit, 0, 3 * unit, 0};
  for (size_t i = 0; i < voxels.size(); ++i) EXPECT_FLOAT_EQ(voxels[i], expected[i]) << i;
}

TEST(VolumeNormalisation, ClipsFirst) {
  EXPECT_EQ(Normalised({.clip = IntensityRange{-100, 300}}, 1, {-1000, -100, 300, 2000}),
            (std::vector<float>{-1, -1, 1, 1}));
  EXPECT_EQ(Normalised({.clip = IntensityRange{-1, 2}, .z_score = false}, 1, {-3, 0.5f, 2, 4}),
            (std::vector<float>{-1, 0.5f, 2, 2}));
}

TEST(VolumeNormalisation, LeavesIntensitiesWhereNothingIsAsked) {
  EXPECT_EQ(Normalised({.z_score = false}, 1, {-3, 0.5f}), (std::vector<float>{-3, 0.5f}));
}

// A large offset costs no digits.
TEST(VolumeNormalisation, IsExactFarFrom0) {
  EXPECT_EQ(Normalised({}, 1, {1e6f + 1, 1e6f - 1}), (std::vector<float>{1, -1}));
}

}  // namespace
}  // namespace plimsoll::data
