// The volumes of a folder, normalised and in memory: those for training and those held out.
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
  // The number of the folder's last training volumes that are held out. 0: the folder's test
  // volumes with labels are held out instead.
  int64_t held_out = 0;
  bool skip_unreadable = false;
};

struct VolumeSet {
  // Sorted by name; all have labels and the same number of channels.
  std::vector<Volume> train, held_out;
  std::vector<std::string> skipped;  // for each unreadable file, why it was skipped
  VolumeDataset dataset;             // from the folder's dataset.json

  int64_t bytes() const;
};

// The name and shape of a volume, known from its headers.
struct VolumeOutline {
  std::string name;
  VolumeShape shape;
};
// The outlines of all volumes that ReadVolumeSet reads. Throws the errors of ReadVolumeSet that the
// headers show.
std::vector<VolumeOutline> OutlineOf(const VolumeSetOptions& options);
// The approximate size of the files that ReadVolumeSet reads, in bytes after decompression.
int64_t BytesOf(const VolumeSetOptions& options);

// UserErrors: a volume cannot be read and must not be skipped; no volume remains for training;
// volumes have different numbers of channels. SettingErrors (folder, held_out): the folder has no
// such volumes, or a class of the model is ignored (VolumeDataset::CheckIgnored).
VolumeSet ReadVolumeSet(const VolumeSetOptions& options);

// Returns false only if the folder can be read and has no labelled test volumes.
bool MayHaveLabelledTests(const std::string& folder);

// Held-out volumes as samples: each volume is covered by windows (volume_patches.h), volume after
// volume. A voxel's label is kUnlabelled in all windows but the one that owns the voxel, so each
// voxel counts once. Windows without a labelled voxel are left out. Rows after the last window
// carry no loss.
class HeldOutWindows final : public Source {
 public:
  // Uses the first `most` windows; 0: all. `overlap`: the parameter of WindowsOf.
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
    int64_t targets = 0;  // the window's own voxels that have a label
  };

  std::shared_ptr<const VolumeSet> volumes_;
  PatchShape patch_;
  std::vector<Window> windows_;
};

}  // namespace plimsoll::data
