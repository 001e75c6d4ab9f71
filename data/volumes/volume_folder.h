// Finds the files of labelled volumes in the folders in which data sets for segmentation come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/volumes/volume_dataset.h"

namespace plimsoll::data {

struct VolumeFile {
  std::string name;                 // of the volume, without folder and endings
  std::vector<std::string> images;  // one with all channels, or one for each
  std::string label;                // empty: it has none
  // The label whose voxels count for nothing, besides those below 0.
  std::optional<int64_t> ignored = {};
};

struct VolumeFolder {
  std::vector<VolumeFile> train;  // all with labels
  std::vector<VolumeFile> test;   // all with labels, or none
  VolumeDataset dataset;          // of the folder's dataset.json; empty without one
};

// Both parts are sorted by name. NAME stands before .nii or .nii.gz; other files, and those whose
// names begin with a dot, are passed over. Two layouts are known:
//   Medical Segmentation Decathlon  imagesTr/NAME and labelsTr/NAME; imagesTs/NAME, and possibly
//                                   labelsTs/NAME. A 4-D image has channels.
//   nnU-Net                         imagesTr/NAME_0000, NAME_0001, … are the channels of the volume
//                                   that labelsTr/NAME belongs to; the same with Ts.
// A folder is of nnU-Net if a label shows it, or without labels if all images are called so.
// No file is opened but dataset.json. UserError: there are no volumes; an image for training has no
// label, or a label no image; a channel is missing that other volumes have; a name is there as .nii
// and as .nii.gz; held-out volumes lie in imagesVa; dataset.json is refused (ReadDataset), or lists
// volumes and not all of them.
VolumeFolder FindVolumes(const std::string& folder);

}  // namespace plimsoll::data
