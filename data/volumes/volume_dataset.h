// dataset.json: the file in which the Medical Segmentation Decathlon and nnU-Net describe a folder
// of volumes (volume_folder.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "formats/key_rules.h"

namespace plimsoll::data {

inline constexpr const char* kDatasetFile = "dataset.json";

struct VolumeDataset {
  // The names of the classes, by label. The file has {"0": "background", …} or, like nnU-Net's
  // files, {"background": 0, …}. Labels below 0 and the label "ignore" are not classes.
  std::map<int64_t, std::string> classes;
  std::optional<int64_t> ignored;  // the label "ignore", whose voxels carry no loss
  // Channel names in the file, by channel, such as "CT": nnU-Net chooses the normalisation of
  // intensities by them.
  std::map<int64_t, std::string> channels;
  // The names of the volumes that the file lists, without folder and extension; empty: no list.
  std::set<std::string> train, test;

  // The names of the classes 0 to `count` - 1; empty if the file names other classes.
  std::vector<std::string> ClassNames(int64_t count) const;
  // The largest label with a name, plus one; nullopt if no label has a name.
  std::optional<int64_t> CountClasses() const;
  // A message that the file names other classes than 0 to `count` - 1, in a line that begins with
  // two spaces. Empty if the file names no other classes.
  std::string OtherClasses(int64_t count) const;
  // Throws a UserError about `path` if the label "ignore" is one of the classes 0 to `count` - 1
  // and is above all named classes: the model would have a class that is never trained.
  void CheckIgnored(int64_t count, const std::string& path) const;
  // The value of data.normalise that the channels' names ask for. `clips`: whether the run file
  // gives the range to which intensities are clamped, which "CT" requires. Throws a UserError about
  // `path` if the names ask for a normalisation that Plimsoll does not have.
  std::string Normalisation(const std::string& path, bool clips) const;
};

// Rules for the keys of dataset.json.
std::span<const formats::KeyRule> DatasetKeys();

// Reads a dataset.json. A UserError names the file and the key: the file is not a JSON object; a
// label is a region (a list of labels); volumes are not in NIfTI format; a key changes the training
// data and is not supported.
VolumeDataset ReadDataset(const std::string& path);

}  // namespace plimsoll::data
