// How a file's voxels lie in a Volume, in RAS+ orientation: which axis of the file goes to the
// right, to the front and to the head, and volumes of another spacing. An affine that is oblique is
// taken by its closest axes: voxels are reordered, never interpolated, so that a slice of the
// volume is a slice of the file.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/volumes/volume.h"
#include "formats/nifti.h"

namespace plimsoll::data {

// Axis i of RAS+ (0 x, to the right; 1 y, to the front; 2 z, to the head) is the file's axis
// axes[i], backwards if flipped[i].
struct Orientation {
  std::array<size_t, 3> axes = {0, 1, 2};
  std::array<bool, 3> flipped = {};

  bool operator==(const Orientation&) const = default;
};

// The closest one, as nibabel's io_orientation: of the rotation nearest to the affine, each of the
// file's axes, the clearest first, takes the direction in which it goes farthest. The affine's
// voxels have a volume.
Orientation OrientationOf(const formats::Affine& affine);

// Of a file's voxels in RAS+.
VolumeSize RasSize(const formats::NiftiGrid& grid, const Orientation& orientation);
std::array<double, 3> RasSpacing(const formats::NiftiGrid& grid, const Orientation& orientation);

// A file's values [C,z,y,x] as [D,H,W,C] in RAS+, and the way back. T: float or uint8_t.
template <typename T>
std::vector<T> ToRas(std::span<const T> values, const formats::NiftiGrid& grid,
                     const Orientation& orientation);
template <typename T>
std::vector<T> FromRas(std::span<const T> voxels, const formats::NiftiGrid& grid,
                       const Orientation& orientation);

// The size with which voxels come closest to the `wanted` spacing: round(length · spacing / wanted)
// of each axis, at least 1 and at most 2^20.
VolumeSize SizeAt(const VolumeSize& size, const std::array<double, 3>& spacing,
                  const std::array<double, 3>& wanted);

// [D,H,W,C] of voxels [d,h,w,C], whose outer borders stay where they are: the centre of voxel i is
// at (i + 1/2) · d/D − 1/2 of the voxels before. Between the centres of eight, linear in each axis;
// before the first and behind the last centre their value.
std::vector<float> ResampledLinear(std::span<const float> voxels, const VolumeSize& from,
                                   const VolumeSize& to, int64_t channels);
// [D,H,W] of labels [d,h,w]: the one in which the voxel's centre lies, on a border the later one.
std::vector<uint8_t> ResampledNearest(std::span<const uint8_t> labels, const VolumeSize& from,
                                      const VolumeSize& to);

}  // namespace plimsoll::data
