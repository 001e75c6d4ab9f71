// The volumes of a folder in memory, normalised: those to train on and those held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/volumes/volume.h"
#include "data/volumes/volume_preparation.h"

namespace plimsoll::data {

struct VolumeSetOptions {
  std::string folder;
  VolumePreparation preparation;
  // So many of the folder's last volumes for training are held out, in place of those for tests.
  // 0: those for tests that have labels.
  int64_t held_out = 0;
  bool skip_unreadable = false;
};

struct VolumeSet {
  std::vector<Volume> train, held_out;  // by name; all have labels and as many channels
  std::vector<std::string> skipped;     // why, of each file that could not be read
  VolumeDataset dataset;                // what the folder says of itself

  int64_t bytes() const;
};

// What a volume will be, by its headers.
struct VolumeOutline {
  std::string name;
  VolumeShape shape;
};
// Of all volumes that ReadVolumeSet reads. Throws what it throws, as far as headers show it.
std::vector<VolumeOutline> OutlineOf(const VolumeSetOptions& options);
// About how many bytes of files ReadVolumeSet reads, unpacked.
int64_t BytesOf(const VolumeSetOptions& options);

// UserError: a volume cannot be read and isn't to be skipped, or there is none left to train on;
// volumes have unequal numbers of channels. SettingError (folder, held_out): there are no such
// volumes, or a class of the model is ignored (VolumeDataset::CheckIgnored).
VolumeSet ReadVolumeSet(const VolumeSetOptions& options);

// False only if the folder can be read and has no volumes for tests with labels.
bool MayHaveLabelledTests(const std::string& folder);

}  // namespace plimsoll::data
