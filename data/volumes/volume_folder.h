// Finds the files of labelled volumes in the folder layouts of data sets for segmentation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/volumes/volume_dataset.h"

namespace plimsoll::data {

struct VolumeFile {
  std::string name;                 // the volume's name, without folder and file extension
  std::vector<std::string> images;  // one file with all channels, or one file for each channel
  std::string label;                // empty if the volume has no label
  // Voxels with this label carry no loss, like those with negative labels.
  std::optional<int64_t> ignored = {};
};

struct VolumeFolder {
  std::vector<VolumeFile> train;  // all have labels
  std::vector<VolumeFile> test;   // either all have labels, or none has
  VolumeDataset dataset;          // from the folder's dataset.json; empty without that file
};

// Finds the volumes; both parts are sorted by name. A file is called NAME.nii or NAME.nii.gz; other
// files, and those whose names begin with a dot, are ignored. Two layouts are known:
//   Medical Segmentation Decathlon  imagesTr/NAME and labelsTr/NAME; imagesTs/NAME, and possibly
//                                   labelsTs/NAME. A 4-D image has channels.
//   nnU-Net                         imagesTr/NAME_0000, NAME_0001, … are the channels of the volume
//                                   that labelsTr/NAME belongs to; the same with Ts.
// The layout is nnU-Net's if a label shows it, or, in a folder without labels, if all images have
// such names. No file except dataset.json is opened. UserErrors: the folder has no volumes; a
// training image has no label, or a label has no image; a channel is missing that other volumes
// have; a name exists both as .nii and as .nii.gz; held-out volumes are in imagesVa; dataset.json
// is invalid (ReadDataset), or lists only some of the volumes.
VolumeFolder FindVolumes(const std::string& folder);

}  // namespace plimsoll::data
