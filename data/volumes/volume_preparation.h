// Preprocessing of volumes: how files become what a model sees. It is the same for training,
// evaluation and prediction.
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

// How a volume's intensities are normalised for a model.
struct VolumeNormalisation {
  // Intensities are clamped to this range, for example a range of CT's Hounsfield units.
  std::optional<IntensityRange> clip = {};
  // After clamping, each channel of each volume gets mean 0 and standard deviation 1 over all its
  // voxels. If all its intensities are equal, they become 0.
  bool z_score = true;
};

// Normalises a volume; all intensities must be finite.
void Normalise(const VolumeNormalisation& normalisation, Volume& volume);

struct VolumePreparation {
  ReadVolumeOptions reading;
  VolumeNormalisation normalisation;

  // Throws the errors of ReadVolume, and sets `grid` as ReadVolume does.
  Volume Read(const VolumeFile& file, formats::NiftiGrid* grid = nullptr) const;
};

// Reads the settings of the source "volumes": spacing, resample, most_voxels, clip, normalise.
// `classes`: the model's number of classes; 0: the model does not fix the number. Throws a
// SettingError for lists of a wrong length.
VolumePreparation VolumePreparationFrom(const Settings& settings, int64_t classes);

}  // namespace plimsoll::data
