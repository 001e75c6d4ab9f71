// The volumes of a folder in memory, normalised: those to train on and those held out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/volumes/volume.h"
#include "data/volumes/volume_patches.h"
#include "data/volumes/volume_preparation.h"
#include "data/volumes/volume_slots.h"

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

// Held-out volumes as samples: windows that cover each of them (volume_patches.h), volume after
// volume. Labels of voxels that are another window's own are kUnlabelled, so that each voxel counts
// once. Windows without a labelled voxel are left out. Rows beyond the last window carry no loss.
class HeldOutWindows final : public Source {
 public:
  // The first `most` windows, or all with 0. `overlap`: that of WindowsOf.
  HeldOutWindows(std::shared_ptr<const VolumeSet> volumes, const PatchShape& patch, double overlap,
                 int64_t most);

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override;
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override;
  std::optional<int64_t> samples() const override { return std::ssize(windows_); }
  bool pads() const override { return true; }

 private:
  struct Window {
    size_t volume = 0;
    VolumeWindow place;
    int64_t targets = 0;  // its own voxels that have a label
  };

  std::shared_ptr<const VolumeSet> volumes_;
  PatchShape patch_;
  std::vector<Window> windows_;
};

}  // namespace plimsoll::data
