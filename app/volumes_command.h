// The command `plimsoll data volumes`: writes made-up volumes as files.
#pragma once

#include <cstdint>
#include <string>

#include "data/volumes/synthetic_volume.h"

namespace plimsoll::data {

struct WriteVolumesOptions {
  std::string folder;  // made if need be
  int64_t train = 20, test = 5;
  SyntheticVolumeOptions volume = {.size = {64, 64, 64}, .channels = 1, .classes = 3};
  uint64_t seed = 1;
};

// Writes FOLDER/imagesTr, labelsTr, imagesTs, labelsTs and dataset.json, in the layout of the
// Medical Segmentation Decathlon, which data.folder and MONAI read. Images are int16, with 1000 for
// the intensity 1; voxels are 1 mm wide. The same options give the same voxels. UserErrors: a size
// or number that cannot be, a folder that cannot be written or already holds volumes.
void WriteVolumes(const WriteVolumesOptions& options);

}  // namespace plimsoll::data
