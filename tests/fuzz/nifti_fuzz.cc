// Any bytes either are a NIfTI-1 file, whose values are as many as its size says, whose affine is
// finite and has an orientation, or raise a UserError.
// Memory (-rss_limit_mb) stays small whatever a header announces.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "data/volumes/volume_files.h"
#include "formats/nifti.h"

namespace {

using namespace plimsoll;
using formats::NiftiVolume;

constexpr int64_t kMostValues = 1 << 20;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

void Check(const NiftiVolume& volume, size_t file_bytes) {
  const formats::NiftiGrid& grid = volume.grid;
  for (const int64_t length : grid.size) Require(length > 0);
  Require(grid.channels > 0);
  Require(grid.values() <= kMostValues);
  Require(static_cast<size_t>(grid.values()) == volume.values.size());
  Require(volume.values.size() <= 1032 * file_bytes);  // as much as deflate can hold
  for (const auto& row : grid.affine) {
    for (const double number : row) Require(std::isfinite(number));
  }
  for (const double distance : formats::SpacingOf(grid.affine)) Require(distance > 0);

  const data::Orientation orientation = data::OrientationOf(grid.affine);
  const std::vector<float> ras = data::ToRas<float>(volume.values, grid, orientation);
  Require(data::RasSize(grid, orientation).voxels() * grid.channels == std::ssize(ras));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Check(formats::ParseNifti({data, size}, "fuzz", kMostValues), size);
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
  return 0;
}
