// How the files of volumes become what a model sees, for training, evaluations and predictions
// alike.
#pragma once

#include <cstdint>

#include "base/settings.h"
#include "data/volumes/volume_files.h"
#include "data/volumes/volume_normalisation.h"

namespace plimsoll::data {

struct VolumePreparation {
  ReadVolumeOptions reading;
  VolumeNormalisation normalisation;

  // Errors and `grid` as of ReadVolume.
  Volume Read(const VolumeFile& file, formats::NiftiGrid* grid = nullptr) const;
};

// By the settings of the source "volumes": spacing, resample, most_voxels, clip, normalise.
// `classes`: of the model; 0: it doesn't say how many. SettingError for lists of another length.
VolumePreparation VolumePreparationFrom(const Settings& settings, int64_t classes);

}  // namespace plimsoll::data
