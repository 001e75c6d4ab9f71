// The geometry of a NIfTI-1 file: its grid, its affine, and the header's qform and sform
// (https://nifti.nimh.nih.gov/nifti-1/documentation/nifti1fields/nifti1fields_pages/quatern.html).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace plimsoll::formats {

// Maps voxel (x, y, z) of a file to a position in millimetres: position = A · (x, y, z, 1). The
// rows of A[3,4] increase to the patient's right, to the front and to the head.
using Affine = std::array<std::array<double, 4>, 3>;

// The distances between neighbouring voxels along a file's axes x, y and z, in millimetres.
std::array<double, 3> SpacingOf(const Affine& affine);

// The header fields that give the voxels' positions, as stored. A form's code says what the
// positions refer to: 1 the scanner, 2 another image, 3 Talairach's atlas, 4 the atlas MNI 152; 0
// means that the form is not used.
struct NiftiForms {
  int16_t qform_code = 0, sform_code = 0;
  uint8_t units = 0;  // xyzt_units: the unit of length in bits 0 to 2, of time in bits 3 to 5
  std::array<float, 4> pixdim = {};  // qfac, and the voxel distances along x, y, z
  std::array<float, 3> quatern = {}, qoffset = {};
  std::array<float, 12> srow = {};  // the rows of the sform

  bool uses_sform() const { return sform_code > 0; }
  bool uses_qform() const { return !uses_sform() && qform_code > 0; }
};

// The size of a file's voxel grid and the voxels' positions.
struct NiftiGrid {
  std::array<int64_t, 3> size = {};  // voxels along x, y, z
  int64_t channels = 1;              // the number of channels or points in time
  Affine affine = {};
  // The header fields of the file that the grid was read from.
  std::optional<NiftiForms> forms = {};

  // The number of values in all channels.
  int64_t values() const { return size[0] * size[1] * size[2] * channels; }
  // Compares size, channels and affine; grids whose files express the affine by different forms may
  // be equal.
  bool operator==(const NiftiGrid& other) const {
    return size == other.size && channels == other.channels && affine == other.affine;
  }
};

// A qform: A = R · diag(spacing), with the offset as last column. R is the rotation of the unit
// quaternion (a, b, c, d), a = sqrt(1 − b² − c² − d²). If `mirrored`, R's last column is negated.
struct Qform {
  std::array<double, 3> bcd = {};
  std::array<double, 3> offset = {};   // mm
  std::array<double, 3> spacing = {};  // mm
  bool mirrored = false;
};

// Rounding may make b² + c² + d² larger than 1; the quaternion is then normalised.
Affine AffineOf(const Qform& qform);

// The affine that the forms describe, in millimetres; no unit means millimetres. If the qform is
// used, its quaternion must be valid.
Affine AffineOf(const NiftiForms& forms);

// Returns nullopt if the axes are not orthogonal.
std::optional<Qform> QformOf(const Affine& affine);

// The volume of the parallelepiped spanned by the axes, each scaled to length 1. It is negative if
// the axes are left-handed, 0 if the affine is singular, and not finite if the affine has such an
// element.
double UnitVolume(const Affine& affine);

}  // namespace plimsoll::formats
