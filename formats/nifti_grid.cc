#include "formats/nifti_grid.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::formats {
namespace {

using Matrix = std::array<std::array<double, 3>, 3>;

// The columns of the affine, each scaled to length 1. NaN if a column has length 0.
Matrix UnitAxes(const Affine& affine) {
  const std::array<double, 3> spacing = SpacingOf(affine);
  Matrix unit;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 3; ++i) unit[row][i] = affine[row][i] / spacing[i];
  }
  return unit;
}

double MillimetresOf(uint8_t units) {
  switch (units & 7) {
    case 1:
      return 1e3;
    case 3:
      return 1e-3;
    default:
      return 1;
  }
}

double Determinant(const Matrix& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
         m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

double ColumnProduct(const Matrix& m, size_t i, size_t j) {
  return m[0][i] * m[0][j] + m[1][i] * m[1][j] + m[2][i] * m[2][j];
}

// Returns b, c and d of the unit quaternion, with a ≥ 0, whose rotation is r. Shepperd 1978:
// dividing by the largest of the four avoids cancellation.
std::array<double, 3> QuaternionOf(const Matrix& r) {
  // The values 4a², 4b², 4c², 4d².
  const std::array<double, 4> squares = {
      1 + r[0][0] + r[1][1] + r[2][2], 1 + r[0][0] - r[1][1] - r[2][2],
      1 - r[0][0] + r[1][1] - r[2][2], 1 - r[0][0] - r[1][1] + r[2][2]};
  const auto largest = static_cast<size_t>(std::ranges::max_element(squares) - squares.begin());
  const double twice = std::sqrt(squares[largest]);
  // Sums and differences of elements mirrored at the diagonal: 4ab, 4ac, 4ad; 4cd, 4bd, 4bc.
  const double ab = r[2][1] - r[1][2], ac = r[0][2] - r[2][0], ad = r[1][0] - r[0][1];
  const double cd = r[2][1] + r[1][2], bd = r[0][2] + r[2][0], bc = r[1][0] + r[0][1];
  const std::array<std::array<double, 4>, 4> products = {{{squares[0], ab, ac, ad},
                                                          {ab, squares[1], bc, bd},
                                                          {ac, bc, squares[2], cd},
                                                          {ad, bd, cd, squares[3]}}};
  const std::array<double, 4>& row = products[largest];
  const double scale = (row[0] < 0 ? -0.5 : 0.5) / twice;
  return {row[1] * scale, row[2] * scale, row[3] * scale};
}

}  // namespace

std::array<double, 3> SpacingOf(const Affine& affine) {
  std::array<double, 3> spacing;
  for (size_t i = 0; i < 3; ++i) {
    spacing[i] = std::hypot(affine[0][i], affine[1][i], affine[2][i]);
  }
  return spacing;
}

double UnitVolume(const Affine& affine) {
  const std::array<double, 3> spacing = SpacingOf(affine);
  if (std::ranges::find(spacing, 0.0) != spacing.end()) return 0;
  double offsets = 0;  // becomes NaN if an element is not finite
  for (const auto& row : affine) offsets += 0 * row[3];
  return Determinant(UnitAxes(affine)) + offsets;
}

Affine AffineOf(const Qform& qform) {
  auto [b, c, d] = qform.bcd;
  const double square = b * b + c * c + d * d;
  double a = 0;
  constexpr double kRounding = 1e-7;  // tolerance of the reference implementation, nifti1_io.c
  if (1 - square > kRounding) {
    a = std::sqrt(1 - square);
  } else {
    const double scale = 1 / std::sqrt(square);
    b *= scale, c *= scale, d *= scale;
  }
  const Matrix r = {{{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
                     {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
                     {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c}}};
  Affine affine;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 3; ++i) affine[row][i] = r[row][i] * qform.spacing[i];
    if (qform.mirrored) affine[row][2] = -affine[row][2];
    affine[row][3] = qform.offset[row];
  }
  return affine;
}

Affine AffineOf(const NiftiForms& forms) {
  Affine affine = {};
  Qform qform = {.mirrored = forms.pixdim[0] < 0};
  for (size_t i = 0; i < 3; ++i) {
    qform.bcd[i] = forms.quatern[i];
    qform.offset[i] = forms.qoffset[i];
    qform.spacing[i] = std::abs(static_cast<double>(forms.pixdim[1 + i]));
    affine[i][i] = qform.spacing[i];
  }
  if (forms.uses_qform()) affine = AffineOf(qform);
  for (size_t i = 0; forms.uses_sform() && i < 12; ++i) affine[i / 4][i % 4] = forms.srow[i];
  for (auto& row : affine) {
    for (double& number : row) number *= MillimetresOf(forms.units);
  }
  return affine;
}

std::optional<Qform> QformOf(const Affine& affine) {
  constexpr double kOrthogonal = 1e-5;  // tolerance for affines from float32 fields
  Matrix r = UnitAxes(affine);
  for (size_t i = 0; i < 3; ++i) {
    if (!(std::abs(ColumnProduct(r, i, (i + 1) % 3)) < kOrthogonal)) return std::nullopt;
  }
  Qform qform = {.spacing = SpacingOf(affine), .mirrored = Determinant(r) < 0};
  for (size_t row = 0; row < 3; ++row) {
    if (qform.mirrored) r[row][2] = -r[row][2];
    qform.offset[row] = affine[row][3];
  }
  qform.bcd = QuaternionOf(r);
  return qform;
}

}  // namespace plimsoll::formats
