// Volumes of medical images in NIfTI-1 files (https://nifti.nimh.nih.gov/nifti-1): one file of a
// header, 348 bytes, and the values, plain (.nii) or compressed with gzip (.nii.gz), in either byte
// order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/nifti_grid.h"

namespace plimsoll::formats {

struct NiftiVolume {
  NiftiGrid grid;
  std::vector<float> values;  // [channels,z,y,x], scaled; whole numbers are exact up to 2^24
};

// Reads the `bytes` of a file. `name` is the file's in messages.
//   values     (u)int8, 16, 32, 64 and float32, 64. They are scaled by scl_slope and scl_inter,
//              unless the slope is 0 or not finite; the result is rounded to float once.
//   dimensions three, or four or five, the last of which counts channels (dim[4] is 1 of five).
//   affine     the sform if its code is positive, else the qform if its code is, else pixdim alone,
//              without turns or flips. Metres and micrometres become millimetres; no unit means
//              millimetres.
// `most_values`: no volume of more values, channels included, is read; each takes 4 bytes. Nothing
// is allocated for values before the header has passed all checks and the file can hold them, and
// then no more than twice what those that have arrived take.
// UserError: another type of file, one of a pair .hdr and .img, NIfTI-2, another type of values,
// more of them than that; a truncated or damaged file, or one that contradicts itself.
NiftiVolume ParseNifti(std::span<const uint8_t> bytes, const std::string& name,
                       int64_t most_values);
// The same of the file at `path`.
NiftiVolume ReadNifti(const std::string& path, int64_t most_values);
// Its grid by the header, without the values. UserErrors as far as the header shows them.
NiftiGrid ReadNiftiGrid(const std::string& path, int64_t most_values);

// Writes values [channels,z,y,x] as uint8, int16 or float32, unscaled, little-endian. The file
// appears whole or not at all. If the grid's affine is still that of its forms, the file has these
// forms, codes and units: each program finds the voxels where it found those of the file that was
// read. Otherwise it has the affine in millimetres as sform, and as qform if its axes are
// orthogonal; the code is that of the form that gave the affine, or 1. UserError: `path` ends
// neither with .nii nor with .nii.gz, or cannot be written, or a side is longer than 32767 voxels.
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const uint8_t> values);
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const int16_t> values);
void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const float> values);

}  // namespace plimsoll::formats
