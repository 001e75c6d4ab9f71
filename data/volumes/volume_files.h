// Reads labelled volumes from NIfTI-1 files (formats/nifti.h), and writes labels as such.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "data/volumes/volume.h"
#include "data/volumes/volume_folder.h"
#include "formats/nifti.h"

namespace plimsoll::data {

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
  VolumeSize size;
};
// By the headers of its files alone, which are quick to read. Throws what ReadVolume throws, as far
// as headers show them.
VolumeShape ShapeOf(const VolumeFile& file, const ReadVolumeOptions& options);

// The volume in RAS+ orientation by the closest axes, and resampled
// (data/volumes/volume_geometry.h): images linearly, labels by the nearest voxel. Its spacing is
// that in which whole voxels fill the file's extent, and so differs from the one of the options by
// at most half a voxel in all. Voxels are read once all headers go together. `grid`: set to how the
// image's first file lies. UserError, which names the file: as of formats::ReadNifti; image,
// channels and label differ in size or affine (by more than 1e-3); a voxel is not finite; a label
// is no whole number up to 254, or no class.
Volume ReadVolume(const VolumeFile& file, const ReadVolumeOptions& options,
                  formats::NiftiGrid* grid = nullptr);

// Writes labels [D,H,W] of a volume that ReadVolume gave, for example a prediction, as a file of
// uint8 with the size, orientation and affine of `grid`: the labels of the nearest voxels. Errors
// as of formats::WriteNifti.
void WriteLabels(const std::string& path, std::span<const uint8_t> labels, const VolumeSize& size,
                 const formats::NiftiGrid& grid);

}  // namespace plimsoll::data
