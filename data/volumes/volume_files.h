// Reads labelled volumes from NIfTI-1 files (formats/nifti.h), and writes label files.
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

// How a file's voxels are reordered to RAS+ orientation: axis i of RAS+ (0 x, to the right; 1 y, to
// the front; 2 z, to the head) is the file's axis axes[i], reversed if flipped[i]. With an oblique
// affine, the closest axes are used: voxels are reordered and never interpolated, so a slice of the
// volume is a slice of the file.
struct Orientation {
  std::array<size_t, 3> axes = {0, 1, 2};
  std::array<bool, 3> flipped = {};

  bool operator==(const Orientation&) const = default;
};

// Finds the closest orientation, as nibabel's io_orientation does. It takes the rotation nearest to
// the affine, and assigns to each of the file's axes, the least oblique first, the direction in
// which the axis extends farthest. The affine must be regular.
Orientation OrientationOf(const formats::Affine& affine);

// The size and spacing of a file's voxels after reordering to RAS+.
VolumeSize RasSize(const formats::NiftiGrid& grid, const Orientation& orientation);
std::array<double, 3> RasSpacing(const formats::NiftiGrid& grid, const Orientation& orientation);

// Reorders a file's values [C,z,y,x] to [D,H,W,C] in RAS+; FromRas does the reverse. T: float or
// uint8_t.
template <typename T>
std::vector<T> ToRas(std::span<const T> values, const formats::NiftiGrid& grid,
                     const Orientation& orientation);
template <typename T>
std::vector<T> FromRas(std::span<const T> voxels, const formats::NiftiGrid& grid,
                       const Orientation& orientation);

// The size whose voxels come closest to the `wanted` spacing: round(length · spacing / wanted) for
// each axis, at least 1 and at most 2^20.
VolumeSize SizeAt(const VolumeSize& size, const std::array<double, 3>& spacing,
                  const std::array<double, 3>& wanted);

// Resamples voxels [d,h,w,C] to [D,H,W,C] by trilinear interpolation. The outer borders of the
// volume stay in place: the centre of voxel i is at (i + 1/2) · d/D − 1/2 in units of source
// voxels. Before the first and after the last source centre, the value is that of the border voxel.
std::vector<float> ResampledLinear(std::span<const float> voxels, const VolumeSize& from,
                                   const VolumeSize& to, int64_t channels);
// Resamples labels [d,h,w] to [D,H,W]: each voxel takes the label of the source voxel that contains
// its centre; on a border, the later one.
std::vector<uint8_t> ResampledNearest(std::span<const uint8_t> labels, const VolumeSize& from,
                                      const VolumeSize& to);

struct ReadVolumeOptions {
  // Spacing along D, H and W in millimetres. 0: the file's spacing.
  std::array<double, 3> spacing = {0, 0, 0};
  // If false, a volume whose spacing differs by more than a thousandth is refused.
  bool resample = true;
  // Limit on the voxels of all channels together, both in the files and resampled. Reading takes up
  // to 12 bytes for each voxel.
  int64_t most_voxels = int64_t{1} << 29;
  int64_t classes = 0;  // labels must be below it; 0: labels up to 254 are allowed
};

// The shape of a volume, known before the volume is read.
struct VolumeShape {
  int64_t channels = 1;
  VolumeSize size;       // size of the result of ReadVolume
  VolumeSize file_size;  // size in RAS+, before resampling
};
// Computes the shape from the headers, which are quick to read. Throws the errors of ReadVolume
// that the headers show.
VolumeShape ShapeOf(const VolumeFile& file, const ReadVolumeOptions& options);

// The peak memory of ReadVolume for a volume of that shape, in bytes. It includes the result, but
// not the buffers of files.
int64_t ReadingBytes(const VolumeFile& file, const VolumeShape& shape);

// Reads a volume, reorders it to RAS+ by the closest axes, and resamples images linearly and labels
// by the nearest voxel (ResampledLinear, ResampledNearest). The final spacing is the one in which
// an integer number of voxels fills the file's extent; the extent therefore differs from the
// options' spacing by at most half a voxel. No voxel is read before all headers have been found to
// match. `grid`: receives the grid of the image's first file. A UserError names the file: errors of
// formats::ReadNifti; image, channels and label differ in size or affine (by more than 1e-3); a
// voxel is not finite; a label is not an integer up to 254, or not a class.
Volume ReadVolume(const VolumeFile& file, const ReadVolumeOptions& options,
                  formats::NiftiGrid* grid = nullptr);

// Writes labels [D,H,W] of a volume from ReadVolume, for example a prediction, as a uint8 file with
// the size, orientation and affine of `grid`. Each voxel of the file takes the label of the nearest
// voxel. Throws the errors of formats::WriteNifti.
void WriteLabels(const std::string& path, std::span<const uint8_t> labels, const VolumeSize& size,
                 const formats::NiftiGrid& grid);
// The memory that WriteLabels takes, in bytes, in addition to its argument `labels` and the buffers
// of files.
int64_t WritingBytes(const VolumeShape& shape);

}  // namespace plimsoll::data
