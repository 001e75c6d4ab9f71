// dataset.json, in which the Medical Segmentation Decathlon and nnU-Net describe a folder of
// volumes (volume_folder.h).
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
  // The names of the classes by their labels. The file has {"0": "background", …} or, like
  // nnU-Net's files, {"background": 0, …}. Labels below 0 and the label "ignore" are no classes.
  std::map<int64_t, std::string> classes;
  std::optional<int64_t> ignored;  // the label "ignore": its voxels count for nothing
  // By channel, as the file writes it, such as "CT": nnU-Net normalises intensities by these names.
  std::map<int64_t, std::string> channels;
  // The names of the volumes that the file lists, without folder and endings; empty: no list.
  std::set<std::string> train, test;

  // One name for each of the classes 0 to `count` - 1, or none: the file names other classes.
  std::vector<std::string> ClassNames(int64_t count) const;
  // As many classes as reach up to the largest label that has a name; nothing: none has.
  std::optional<int64_t> CountClasses() const;
  // Says, in a line that begins with two spaces, that the file names other classes than the 0 to
  // `count` - 1, for which ClassNames has no names; empty: it doesn't.
  std::string OtherClasses(int64_t count) const;
  // UserError, which is about `path`: of the classes 0 to `count` - 1 the label "ignore" is one
  // that no other label needs, so that it would never be trained.
  void CheckIgnored(int64_t count, const std::string& path) const;
  // The choice of data.normalise that the channels' names ask for. `clips`: the run file says to
  // what intensities are cut, which "CT" asks for. UserError, which is about `path`: they ask for
  // what Plimsoll doesn't do.
  std::string Normalisation(const std::string& path, bool clips) const;
};

// What is known of the file's keys.
std::span<const formats::KeyRule> DatasetKeys();

// UserError, which names the file and the key: the file is no JSON object; a label is a region, a
// list of labels; volumes have another form than NIfTI; a key changes what is trained on and is not
// supported.
VolumeDataset ReadDataset(const std::string& path);

}  // namespace plimsoll::data
