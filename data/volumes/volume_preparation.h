// Preprocessing of volumes: how their files become what a model sees, for training, evaluations and
// predictions alike.
#pragma once

#include <cstdint>
#include <optional>

#include "base/settings.h"
#include "data/volumes/volume.h"
#include "data/volumes/volume_files.h"

namespace plimsoll::data {

struct IntensityRange {
  double low = 0, high = 0;
};

// What becomes of a volume's intensities before a model sees them.
struct VolumeNormalisation {
  // Intensities outside of it become its ends: Hounsfield units of CT.
  std::optional<IntensityRange> clip = {};
  // Then each channel of each volume gets mean 0 and standard deviation 1, over all its voxels;
  // mean 0 alone where all are equal.
  bool z_score = true;
};

// Intensities are finite.
void Normalise(const VolumeNormalisation& normalisation, Volume& volume);

struct VolumePreparation {
  ReadVolumeOptions reading;
  VolumeNormalisation normalisation;

  // Errors and `grid` are those of ReadVolume.
  Volume Read(const VolumeFile& file, formats::NiftiGrid* grid = nullptr) const;
};

// By the settings of the source "volumes": spacing, resample, most_voxels, clip, normalise.
// `classes`: of the model; 0: it doesn't say how many. SettingError for lists of another length.
VolumePreparation VolumePreparationFrom(const Settings& settings, int64_t classes);

}  // namespace plimsoll::data
