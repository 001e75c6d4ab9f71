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

// Reads a volume, reorders it to RAS+ by the closest axes, and resamples its image and label
// (volume_resampling.h). The final spacing is the one in which
// an integer number of voxels fills the file's extent; the extent therefore differs from the
// options' spacing by at most half a voxel. No voxel is read before all headers have been found to
// match. `grid`: receives the grid of the image's first file. A UserError names the file: errors of
// formats::ReadNifti; image, channels and label differ in size or affine (by more than 1e-3); a
// voxel is not finite; a label is not an integer up to 254, or not a class.
Volume ReadVolume(const VolumeFile& file, const ReadVolumeOptions& options,
                  formats::NiftiGrid* grid = nullptr);

// Writes labels [D,H,W] in RAS+, for example a prediction, as a uint8 file with the size,
// orientation and affine of `grid`: D, H, W are its RasSize. Throws the errors of
// formats::WriteNifti.
void WriteLabels(const std::string& path, std::span<const uint8_t> labels,
                 const formats::NiftiGrid& grid);
// The memory that WriteLabels takes for a file of that size, in bytes, in addition to its argument
// `labels` and the buffers of files.
int64_t WritingBytes(const VolumeSize& size);

}  // namespace plimsoll::data
