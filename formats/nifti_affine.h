// The affine of a NIfTI-1 file as its qform says it, and the way back
// (https://nifti.nimh.nih.gov/nifti-1/documentation/nifti1fields/nifti1fields_pages/quatern.html).
#pragma once

#include <array>
#include <optional>

#include "formats/nifti.h"

namespace plimsoll::formats {

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
