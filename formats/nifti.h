// Volumes of medical images in NIfTI-1 files (https://nifti.nimh.nih.gov/nifti-1): one file of a
// header, 348 bytes, and the values, plain (.nii) or compressed with gzip (.nii.gz), in either byte
// order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::formats {

// Leads voxel (x, y, z) of a file to a place in millimetres: place = A · (x, y, z, 1). The rows of
// A[3,4] grow to the patient's right, to the front and to the head.
using Affine = std::array<std::array<double, 4>, 3>;

// The distances of neighbours along a file's axes x, y and z, in millimetres.
std::array<double, 3> SpacingOf(const Affine& affine);

// The fields of a header that say where its voxels lie, as the header has them. A code says what
// the places refer to: 1 the scanner, 2 another image, 3 Talairach's atlas, 4 the atlas MNI 152;
// 0 means that the form says nothing.
struct NiftiForms {
  int16_t qform_code = 0, sform_code = 0;
  uint8_t units = 0;                 // xyzt_units: of lengths in bits 0 to 2, of time in 3 to 5
  std::array<float, 4> pixdim = {};  // qfac, and the distances along x, y, z
  std::array<float, 3> quatern = {}, qoffset = {};
  std::array<float, 12> srow = {};  // the rows of the sform

  bool uses_sform() const { return sform_code > 0; }
  bool uses_qform() const { return !uses_sform() && qform_code > 0; }
};

// How a file's voxels lie.
struct NiftiGrid {
  std::array<int64_t, 3> size = {};  // along x, y, z
  int64_t channels = 1;              // or points in time
  Affine affine = {};
  std::optional<NiftiForms> forms = {};  // of the file that it was read from

  // Of all channels.
  int64_t values() const { return size[0] * size[1] * size[2] * channels; }
  // Compares where voxels lie, whatever the forms by which files say it.
  bool operator==(const NiftiGrid& other) const {
    return size == other.size && channels == other.channels && affine == other.affine;
  }
};

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
