#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "data/volumes/volume_files.h"

namespace plimsoll::data {
namespace {

using formats::Affine;
using formats::NiftiGrid;

// Axis i of the file goes along direction to[i] with the sign[i] and 1 + i millimetres.
Affine AlongAxes(const std::array<size_t, 3>& to, const std::array<int, 3>& sign) {
  Affine affine = {};
  for (size_t i = 0; i < 3; ++i) affine[to[i]][i] = sign[i] * static_cast<double>(1 + i);
  return affine;
}

// Calls visit(affine) for each of the 48 ways to lie along the axes.
template <typename Visit>
void ForEachWay(Visit visit) {
  std::array<size_t, 3> to = {0, 1, 2};
  do {
    for (int signs = 0; signs < 8; ++signs) {
      visit(AlongAxes(to, {signs & 1 ? -1 : 1, signs & 2 ? -1 : 1, signs & 4 ? -1 : 1}));
    }
  } while (std::ranges::next_permutation(to).found);
}

TEST(VolumeGeometry, OrientationIsThatOfTheAxes) {
  EXPECT_EQ(OrientationOf(AlongAxes({0, 1, 2}, {1, 1, 1})), Orientation());
  EXPECT_EQ(OrientationOf(AlongAxes({0, 1, 2}, {-1, -1, 1})),
            (Orientation{{0, 1, 2}, {true, true, false}}));
  // The file's x goes down, y to the right, z to the back.
  EXPECT_EQ(OrientationOf(AlongAxes({2, 0, 1}, {-1, 1, -1})),
            (Orientation{{1, 2, 0}, {false, true, true}}));
}

// By nibabel's io_orientation: random rotations, mirrored or not, every second one sheared.
TEST(VolumeGeometry, OrientationOfAnObliqueAffineIsTheClosest) {
  struct Case {
    Affine affine;
    std::array<size_t, 3> axes;
    std::array<bool, 3> flipped;
  };
  const std::vector<Case> cases = {
      {{{{0.76, 0.03, -0.9, 0}, {-0.33, -0.45, -1.94, 0}, {0.09, -1.97, 0.43, 0}}},
       {0, 2, 1},
       {false, true, true}},
      {{{{1.95, 1.11, 0.74, 0}, {0.35, -2.04, -1.89, 0}, {-0.33, -1.41, 2.37, 0}}},
       {0, 1, 2},
       {false, true, false}},
      {{{{3.6, -0.56, -0.22, 0}, {-1.52, -1.25, -0.71, 0}, {-0.19, -0.71, 1.42, 0}}},
       {0, 1, 2},
       {false, true, false}},
      {{{{2.78, -0.12, -0.3, 0}, {-0.93, -1.57, -0.62, 0}, {-0.46, 0.93, -0.53, 0}}},
       {0, 1, 2},
       {false, true, true}},
      {{{{-0.91, 0.45, -2.91, 0}, {1.92, 0.64, 1.01, 0}, {2.87, -0.37, -1.6, 0}}},
       {2, 1, 0},
       {true, false, false}},
      {{{{0.2, -1.32, 1.59, 0}, {-1.22, -1.27, -0.36, 0}, {-0.77, 1.66, 0.98, 0}}},
       {2, 0, 1},
       {false, true, false}},
      {{{{-1.44, -2.45, -0.63, 0}, {-1.11, 2.72, -0.59, 0}, {1.69, 1.23, -0.92, 0}}},
       {0, 1, 2},
       {true, false, true}},
      {{{{2.03, -0.37, 0.97, 0}, {0.5, -0.96, -3.86, 0}, {-0.75, -3.36, 0.08, 0}}},
       {0, 2, 1},
       {false, true, true}},
      // So sheared that the rotation takes several steps.
      {{{{2.2, -1.3, -0.3, 0}, {-2.7, -3.0, -1.8, 0}, {-0.9, 2.6, 2.3, 0}}},
       {0, 1, 2},
       {false, true, false}},
      {{{{2.8, -2.9, -1.9, 0}, {-0.5, 0.3, 1.7, 0}, {0.3, 0.1, -1.6, 0}}},
       {0, 2, 1},
       {false, false, false}}};
  for (const Case& c : cases) {
    EXPECT_EQ(OrientationOf(c.affine), (Orientation{c.axes, c.flipped})) << c.affine[0][0];
  }
  // Two axes go farthest to the right; the clearer one has it.
  EXPECT_EQ(OrientationOf({{{0.8, 0.9, 0, 0}, {0.6, -0.1, 0, 0}, {0, 0, 1, 0}}}),
            (Orientation{{1, 0, 2}, {false, false, false}}));
}

TEST(VolumeGeometry, VoxelsLieWhereTheAffineLeads) {
  ForEachWay([](const Affine& affine) {
    const NiftiGrid grid = {.size = {2, 3, 4}, .channels = 2, .affine = affine};
    const Orientation orientation = OrientationOf(affine);
    // A value says its channel and where the affine leads its voxel, but for an offset.
    std::vector<float> values;
    for (int c = 0; c < 2; ++c) {
      for (int z = 0; z < 4; ++z) {
        for (int y = 0; y < 3; ++y) {
          for (int x = 0; x < 2; ++x) {
            double value = c;
            for (size_t i = 0; i < 3; ++i) {
              const double place = affine[i][0] * x + affine[i][1] * y + affine[i][2] * z;
              value += place * (i == 0 ? 10 : i == 1 ? 1000 : 100000);
            }
            values.push_back(static_cast<float>(value));
          }
        }
      }
    }
    const VolumeSize size = RasSize(grid, orientation);
    const std::array<double, 3> spacing = RasSpacing(grid, orientation);
    const std::vector<float> voxels = ToRas<float>(values, grid, orientation);
    ASSERT_EQ(voxels.size(), 48u);
    EXPECT_EQ(size.voxels(), 24);
    size_t at = 0;
    for (int64_t z = 0; z < size.depth; ++z) {
      for (int64_t y = 0; y < size.height; ++y) {
        for (int64_t x = 0; x < size.width; ++x) {
          for (int c = 0; c < 2; ++c) {
            const double expected = c + 10 * spacing[2] * static_cast<double>(x) +
                                    1000 * spacing[1] * static_cast<double>(y) +
                                    100000 * spacing[0] * static_cast<double>(z);
            EXPECT_EQ(voxels[at++] - voxels[0], expected);
          }
        }
      }
    }
    EXPECT_EQ(FromRas<float>(voxels, grid, orientation), values);
  });
}

}  // namespace
}  // namespace plimsoll::data
