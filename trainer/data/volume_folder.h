// Finds the files of labelled volumes in the folders in which data sets for segmentation come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::data {

struct VolumeFile {
  std::string name;                 // of the volume, without folder and endings
  std::vector<std::string> images;  // one with all channels, or one for each
  std::string label;                // empty: it has none
};

struct VolumeFolder {
  std::vector<VolumeFile> train;  // all with labels
  std::vector<VolumeFile> test;   // all with labels, or none
};

// Both parts are sorted by name. NAME stands before .nii or .nii.gz; other files, and those whose
// names begin with a dot, are passed over. Two layouts are known:
//   Medical Segmentation Decathlon  imagesTr/NAME and labelsTr/NAME; imagesTs/NAME, and possibly
//                                   labelsTs/NAME. A 4-D image has channels.
//   nnU-Net                         imagesTr/NAME_0000, NAME_0001, … are the channels of the volume
//                                   that labelsTr/NAME belongs to; the same with Ts.
// A folder is of nnU-Net if a label shows it, or without labels if all images are called so.
// No file is opened. UserError: there are no volumes; an image for training has no label, or a
// label no image; a channel is missing that other volumes have; a name is there as .nii and as
// .nii.gz.
VolumeFolder FindVolumes(const std::string& folder);

// The names that "labels" of the folder's dataset.json gives the classes 0 to `classes` - 1, as
// {"0": "background", …} or, as nnU-Net has it, {"background": 0, …}. Empty: there is no such file,
// or not one name for each of these classes. UserError: the file is no JSON object.
std::vector<std::string> ClassNamesIn(const std::string& folder, int64_t classes);

}  // namespace plimsoll::data
