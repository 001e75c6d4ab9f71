// Medical volumes in NIfTI-1 files (https://nifti.nimh.nih.gov/nifti-1). A single file has a header
// of 348 bytes and the values, in either byte order, plain (.nii) or compressed with gzip
// (.nii.gz).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/nifti_grid.h"

namespace plimsoll::formats {

struct NiftiVolume {
  NiftiGrid grid;
  std::vector<float> values;  // [channels,z,y,x], scaled; integers are exact up to 2^24
};

// Parses a NIfTI-1 file from its `bytes`. `name` is the file's name in messages.
//   values     (u)int8, 16, 32, 64 and float32, 64. They are scaled by scl_slope and scl_inter,
//              unless the slope is 0 or not finite; the result is rounded to float once.
//   dimensions three, or four or five, the last of which counts channels (dim[4] is 1 of five).
//   affine     the sform if its code is positive, else the qform if its code is, else pixdim alone,
//              without turns or flips. Metres and micrometres become millimetres; no unit means
//              millimetres.
// `most_values`: limit on the number of values, channels included; each takes 4 bytes. No memory is
// allocated for values before the header has passed all checks and the file can hold them; then at
// most twice the memory of the received values. UserErrors: the file is of another type, one of a
// pair .hdr and .img, NIfTI-2, truncated, damaged or contradictory, or its values are of another
// type or more than `most_values`.
NiftiVolume ParseNifti(std::span<const uint8_t> bytes, const std::string& name,
                       int64_t most_values);
// Reads and parses the file at `path`.
NiftiVolume ReadNifti(const std::string& path, int64_t most_values);
// Reads only the file's grid, from its header. Throws the UserErrors that the header shows.
NiftiGrid ReadNiftiGrid(const std::string& path, int64_t most_values);

// Writes values [channels,z,y,x] as uint8, int16 or float32, unscaled, little-endian. The write is
// atomic: the file appears complete or not at all. If the grid's affine was not changed since the
// grid was read, the file gets the original qform, sform, codes and units, so each program finds
// the voxels at their original positions. Otherwise the file gets the affine in millimetres as
// sform, and as qform if the axes are orthogonal; its code is that of the original form that gave
// the affine, or 1. UserErrors: `path` ends neither with .nii nor with .nii.gz or cannot be
// written, or a side is longer than 32767 voxels.
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const uint8_t> values);
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const int16_t> values);
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const float> values);

}  // namespace plimsoll::formats
