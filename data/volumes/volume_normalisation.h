// What becomes of a volume's intensities before a model sees them.
#pragma once

#include <optional>

#include "data/volumes/volume.h"

namespace plimsoll::data {

struct IntensityRange {
  double low = 0, high = 0;
};

struct VolumeNormalisation {
  // Intensities outside of it become its ends: Hounsfield units of CT.
  std::optional<IntensityRange> clip = {};
  // Then each channel of each volume gets mean 0 and standard deviation 1, over all its voxels;
  // mean 0 alone where all are equal.
  bool z_score = true;
};

// Intensities are finite.
void Normalise(const VolumeNormalisation& normalisation, Volume& volume);

}  // namespace plimsoll::data
