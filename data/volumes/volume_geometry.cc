// Reorders a file's voxels to RAS+ orientation.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "data/volumes/volume_files.h"

namespace plimsoll::data {
namespace {

using Matrix = std::array<std::array<double, 3>, 3>;

std::array<double, 3> Cross(const Matrix& m, size_t i, size_t j) {
  return {m[1][i] * m[2][j] - m[2][i] * m[1][j], m[2][i] * m[0][j] - m[0][i] * m[2][j],
          m[0][i] * m[1][j] - m[1][i] * m[0][j]};
}

// The orthogonal matrix closest to the affine's axes after scaling each axis to length 1 (the polar
// factor), by Newton's iteration R ← (R + R^−T) / 2. Higham 1986, "Computing the polar
// decomposition".
Matrix NearestRotation(const formats::Affine& affine) {
  const std::array<double, 3> spacing = formats::SpacingOf(affine);
  Matrix r;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 3; ++i) r[row][i] = affine[row][i] / spacing[i];
  }
  // A step halves a large matrix; near the solution it doubles the number of correct digits.
  constexpr int kMostSteps = 100;
  for (int step = 0; step < kMostSteps; ++step) {
    // The columns of R^−T are the cross products of R's, divided by its determinant.
    const std::array<std::array<double, 3>, 3> crosses = {Cross(r, 1, 2), Cross(r, 2, 0),
                                                          Cross(r, 0, 1)};
    const double determinant =
        r[0][0] * crosses[0][0] + r[1][0] * crosses[0][1] + r[2][0] * crosses[0][2];
    double change = 0;
    for (size_t row = 0; row < 3; ++row) {
      for (size_t i = 0; i < 3; ++i) {
        const double next = (r[row][i] + crosses[i][row] / determinant) / 2;
        change = std::max(change, std::abs(next - r[row][i]));
        r[row][i] = next;
      }
    }
    constexpr double kConverged = 1e-14;
    if (change < kConverged) break;
  }
  return r;
}

// The memory layout of RAS+ in a channel of the file: the offset of voxel (0, 0, 0), and the
// distance of neighbours along x, y and z.
struct Strides {
  std::array<int64_t, 3> size = {};  // sides along x, y, z of RAS+
  int64_t first = 0;
  std::array<int64_t, 3> step = {};
};

Strides StridesOf(const formats::NiftiGrid& grid, const Orientation& orientation) {
  const std::array<int64_t, 3> steps = {1, grid.size[0], grid.size[0] * grid.size[1]};
  Strides strides;
  for (size_t i = 0; i < 3; ++i) {
    const size_t axis = orientation.axes[i];
    strides.size[i] = grid.size[axis];
    strides.step[i] = steps[axis];
    if (!orientation.flipped[i]) continue;
    strides.first += (grid.size[axis] - 1) * steps[axis];
    strides.step[i] = -steps[axis];
  }
  return strides;
}

// Calls visit(offset in the file, offset in RAS+) for each value.
template <typename Visit>
void ForEachValue(const formats::NiftiGrid& grid, const Orientation& orientation, Visit visit) {
  const Strides strides = StridesOf(grid, orientation);
  const int64_t plane = grid.values() / grid.channels;
  size_t ras = 0;
  for (int64_t z = 0; z < strides.size[2]; ++z) {
    for (int64_t y = 0; y < strides.size[1]; ++y) {
      int64_t at = strides.first + z * strides.step[2] + y * strides.step[1];
      for (int64_t x = 0; x < strides.size[0]; ++x, at += strides.step[0]) {
        for (int64_t c = 0; c < grid.channels; ++c) {
          visit(static_cast<size_t>(at + c * plane), ras++);
        }
      }
    }
  }
}

void RequireValues(size_t values, int64_t expected) {
  if (static_cast<int64_t>(values) != expected) {
    throw InternalError("a volume has another number of voxels than its size says");
  }
}

}  // namespace

Orientation OrientationOf(const formats::Affine& affine) {
  const Matrix r = NearestRotation(affine);
  std::array<bool, 3> taken = {};
  // Among the directions not yet taken, the one in which the file's axis extends farthest.
  const auto farthest = [&](size_t axis) {
    size_t best = 0;
    double length = -1;
    for (size_t row = 0; row < 3; ++row) {
      if (taken[row] || std::abs(r[row][axis]) <= length) continue;
      best = row;
      length = std::abs(r[row][axis]);
    }
    return best;
  };
  std::array<double, 3> clearness;
  for (size_t axis = 0; axis < 3; ++axis) clearness[axis] = std::abs(r[farthest(axis)][axis]);
  std::array<size_t, 3> order = {0, 1, 2};
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t axis) { return clearness[axis]; });
  Orientation orientation;
  for (const size_t axis : order) {
    const size_t direction = farthest(axis);
    taken[direction] = true;
    orientation.axes[direction] = axis;
    orientation.flipped[direction] = r[direction][axis] < 0;
  }
  return orientation;
}

VolumeSize RasSize(const formats::NiftiGrid& grid, const Orientation& orientation) {
  const auto& axes = orientation.axes;
  return {grid.size[axes[2]], grid.size[axes[1]], grid.size[axes[0]]};
}

std::array<double, 3> RasSpacing(const formats::NiftiGrid& grid, const Orientation& orientation) {
  const std::array<double, 3> spacing = formats::SpacingOf(grid.affine);
  const auto& axes = orientation.axes;
  return {spacing[axes[2]], spacing[axes[1]], spacing[axes[0]]};
}

template <typename T>
std::vector<T> ToRas(std::span<const T> values, const formats::NiftiGrid& grid,
                     const Orientation& orientation) {
  RequireValues(values.size(), grid.values());
  std::vector<T> voxels(values.size());
  ForEachValue(grid, orientation, [&](size_t file, size_t ras) { voxels[ras] = values[file]; });
  return voxels;
}

template <typename T>
std::vector<T> FromRas(std::span<const T> voxels, const formats::NiftiGrid& grid,
                       const Orientation& orientation) {
  RequireValues(voxels.size(), grid.values());
  std::vector<T> values(voxels.size());
  ForEachValue(grid, orientation, [&](size_t file, size_t ras) { values[file] = voxels[ras]; });
  return values;
}

template std::vector<float> ToRas(std::span<const float>, const formats::NiftiGrid&,
                                  const Orientation&);
template std::vector<uint8_t> ToRas(std::span<const uint8_t>, const formats::NiftiGrid&,
                                    const Orientation&);
template std::vector<float> FromRas(std::span<const float>, const formats::NiftiGrid&,
                                    const Orientation&);
template std::vector<uint8_t> FromRas(std::span<const uint8_t>, const formats::NiftiGrid&,
                                      const Orientation&);

}  // namespace plimsoll::data
