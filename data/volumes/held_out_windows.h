// Held-out volumes as samples: windows that cover each of them (volume_patches.h), volume after
// volume. Labels of voxels that are another window's own are kUnlabelled, so that each voxel counts
// once. Windows without a labelled voxel are left out. Rows beyond the last window carry no loss.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/volumes/volume_patches.h"
#include "data/volumes/volume_set.h"
#include "data/volumes/volume_slots.h"

namespace plimsoll::data {

class HeldOutWindows final : public Source {
 public:
  // The first `most` windows, or all with 0. `overlap`: as of WindowsOf.
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
