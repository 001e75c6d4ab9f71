// Where the voxels of a NIfTI-1 file lie: its grid, the affine, and the forms that its header has
// (https://nifti.nimh.nih.gov/nifti-1/documentation/nifti1fields/nifti1fields_pages/quatern.html).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

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

// A = R · diag(spacing) with the offset as last column. R is the rotation of the unit quaternion
// (a, b, c, d), a = sqrt(1 − b² − c² − d²); if `mirrored`, its last column is negated.
struct Qform {
  std::array<double, 3> bcd = {};
  std::array<double, 3> offset = {};   // mm
  std::array<double, 3> spacing = {};  // mm
  bool mirrored = false;
};

// b² + c² + d² may be above 1 by rounding; the quaternion is then normalised.
Affine AffineOf(const Qform& qform);

// The affine in millimetres that the forms mean; no unit means millimetres. A qform that is used
// has a rotation.
Affine AffineOf(const NiftiForms& forms);

// None if the axes are not orthogonal.
std::optional<Qform> QformOf(const Affine& affine);

// The volume of the parallelepiped of the axes, each made one long; negative if they are
// left-handed. 0 of an affine that is no way to tell voxels apart; not finite if it has such a
// number.
double UnitVolume(const Affine& affine);

}  // namespace plimsoll::formats
