// Reads labelled volumes from NIfTI-1 files (formats/nifti.h), and writes labels as such.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/volumes/volume.h"
#include "data/volumes/volume_folder.h"
#include "formats/nifti.h"

namespace plimsoll::data {

// How a file's voxels lie in a Volume, in RAS+ orientation: which axis of the file goes to the
// right, to the front and to the head, and volumes of another spacing. An affine that is oblique is
// taken by its closest axes: voxels are reordered, never interpolated, so that a slice of the
// volume is a slice of the file.
//
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

struct ReadVolumeOptions {
  // Along D, H, W, in millimetres; 0: as in the file.
  std::array<double, 3> spacing = {0, 0, 0};
  // False: a volume of another spacing (by more than a thousandth) is refused.
  bool resample = true;
  // Of all channels together, in the files and resampled. Reading takes up to 12 bytes for each.
  int64_t most_voxels = int64_t{1} << 29;
  int64_t classes = 0;  // labels are below it; 0: up to 254
};

// What a volume will be when it is read.
struct VolumeShape {
  int64_t channels = 1;
  VolumeSize size;       // as ReadVolume gives it
  VolumeSize file_size;  // in RAS+, before it is resampled
};
// By the headers of its files alone, which are quick to read. Throws what ReadVolume throws, as far
// as headers show them.
VolumeShape ShapeOf(const VolumeFile& file, const ReadVolumeOptions& options);

// The most memory that ReadVolume takes at a time for a volume of that shape, in bytes, with what
// it returns, but without the buffers of files.
int64_t ReadingBytes(const VolumeFile& file, const VolumeShape& shape);

// The volume in RAS+ orientation by the closest axes, and resampled
// (ResampledLinear, ResampledNearest): images linearly, labels by the nearest voxel. Its spacing is
// that in which whole voxels fill the file's extent, and so differs from the one of the options by
// at most half a voxel in all. Voxels are read once all headers go together. `grid`: set to how the
// image's first file lies. UserError, which names the file: like formats::ReadNifti; image,
// channels and label differ in size or affine (by more than 1e-3); a voxel is not finite; a label
// is no whole number up to 254, or no class.
Volume ReadVolume(const VolumeFile& file, const ReadVolumeOptions& options,
                  formats::NiftiGrid* grid = nullptr);

// Writes labels [D,H,W] of a volume that ReadVolume gave, for example a prediction, as a file of
// uint8 with the size, orientation and affine of `grid`: the labels of the nearest voxels. Errors
// like formats::WriteNifti.
void WriteLabels(const std::string& path, std::span<const uint8_t> labels, const VolumeSize& size,
                 const formats::NiftiGrid& grid);
// The memory that it takes, in bytes, in addition to the labels that it gets and the buffers of
// files.
int64_t WritingBytes(const VolumeShape& shape);

}  // namespace plimsoll::data
