// Reorders a file's voxels to RAS+ orientation, and resamples volumes to another spacing.
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

// The two voxels of an axis between whose centres a new voxel's centre lies.
struct Between {
  int64_t low = 0, high = 0;
  float share = 0;  // the weight of `high`
};

std::vector<Between> LinearPlaces(int64_t from, int64_t to) {
  std::vector<Between> places;
  for (int64_t i = 0; i < to; ++i) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double centre = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                     static_cast<double>(from - 1));
    const auto low = static_cast<int64_t>(centre);
    places.push_back(
        {low, std::min(low + 1, from - 1), static_cast<float>(centre - static_cast<double>(low))});
  }
  return places;
}

// For each of the `to` new voxels, the voxel that contains its centre.
std::vector<int64_t> NearestPlaces(int64_t from, int64_t to) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < to; ++i) places.push_back((2 * i + 1) * from / (2 * to));
  return places;
}

float Mix(float low, float high, float share) { return low + share * (high - low); }

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

VolumeSize SizeAt(const VolumeSize& size, const std::array<double, 3>& spacing,
                  const std::array<double, 3>& wanted) {
  constexpr double kMost = 1 << 20;  // then the product of three sides fits into 64 bits
  const auto length = [&](int64_t from, size_t axis) {
    const double exact = static_cast<double>(from) * spacing[axis] / wanted[axis];
    return static_cast<int64_t>(std::clamp(std::round(exact), 1.0, kMost));
  };
  return {length(size.depth, 0), length(size.height, 1), length(size.width, 2)};
}

std::vector<float> ResampledLinear(std::span<const float> voxels, const VolumeSize& from,
                                   const VolumeSize& to, int64_t channels) {
  RequireValues(voxels.size(), from.voxels() * channels);
  if (from == to) return {voxels.begin(), voxels.end()};
  const std::vector<Between> depths = LinearPlaces(from.depth, to.depth);
  const std::vector<Between> heights = LinearPlaces(from.height, to.height);
  const std::vector<Between> widths = LinearPlaces(from.width, to.width);
  std::vector<float> result;
  result.reserve(static_cast<size_t>(to.voxels() * channels));
  for (const Between& z : depths) {
    for (const Between& y : heights) {
      const auto row = [&](int64_t depth, int64_t height) {
        return voxels.data() + (depth * from.height + height) * from.width * channels;
      };
      const float* const low_low = row(z.low, y.low);
      const float* const low_high = row(z.low, y.high);
      const float* const high_low = row(z.high, y.low);
      const float* const high_high = row(z.high, y.high);
      for (const Between& x : widths) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto along_x = [&](const float* line) {
            return Mix(line[x.low * channels + c], line[x.high * channels + c], x.share);
          };
          result.push_back(Mix(Mix(along_x(low_low), along_x(low_high), y.share),
                               Mix(along_x(high_low), along_x(high_high), y.share), z.share));
        }
      }
    }
  }
  return result;
}

std::vector<uint8_t> ResampledNearest(std::span<const uint8_t> labels, const VolumeSize& from,
                                      const VolumeSize& to) {
  RequireValues(labels.size(), from.voxels());
  if (from == to) return {labels.begin(), labels.end()};
  const std::vector<int64_t> widths = NearestPlaces(from.width, to.width);
  std::vector<uint8_t> result;
  result.reserve(static_cast<size_t>(to.voxels()));
  for (const int64_t z : NearestPlaces(from.depth, to.depth)) {
    for (const int64_t y : NearestPlaces(from.height, to.height)) {
      const uint8_t* const line = labels.data() + (z * from.height + y) * from.width;
      for (const int64_t x : widths) result.push_back(line[x]);
    }
  }
  return result;
}

}  // namespace plimsoll::data
