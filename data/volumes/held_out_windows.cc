// Held-out volumes as samples: windows that cover each volume.
#include <algorithm>
#include <utility>

#include "data/volumes/volume_augmentation.h"
#include "data/volumes/volume_set.h"

namespace plimsoll::data {

HeldOutWindows::HeldOutWindows(std::shared_ptr<const VolumeSet> volumes, const PatchShape& patch,
                               double overlap, int64_t most)
    : volumes_(std::move(volumes)), patch_(patch) {
  for (size_t i = 0; i < volumes_->held_out.size(); ++i) {
    for (const VolumeWindow& place : WindowsOf(volumes_->held_out[i].size, patch.size, overlap)) {
      if (most > 0 && std::ssize(windows_) == most) return;
      const int64_t targets = CountLabelled(volumes_->held_out[i], place.own);
      if (targets > 0) windows_.push_back({i, place, targets});
    }
  }
}

void HeldOutWindows::Fill(int64_t first, std::span<const graph::Slot> slots) const {
  const VolumeSlots found(patch_, slots);
  for (int64_t row = 0; row < found.rows(); ++row) {
    const std::span<float> image = found.image(row);
    const std::span<int32_t> labels = found.labels(row);
    if (first + row >= std::ssize(windows_)) {
      std::ranges::fill(image, 0.0f);
      std::ranges::fill(labels, kUnlabelled);
      continue;
    }
    const Window& window = windows_[static_cast<size_t>(first + row)];
    const Volume& volume = volumes_->held_out[window.volume];
    const PatchPlace place = {.first = window.place.first};
    for (int64_t c = 0; c < patch_.channels && !image.empty(); ++c) {
      CopyChannel(volume, place, patch_.size, c, {}, image);
    }
    if (labels.empty()) continue;
    CopyLabels(volume, place, patch_.size, labels);
    KeepOwnLabels(window.place, patch_.size, labels);
  }
}

int64_t HeldOutWindows::CountTargets(std::string_view /*objective*/, int64_t first,
                                     int64_t count) const {
  const int64_t end = std::min(first + count, std::ssize(windows_));
  int64_t targets = 0;
  for (int64_t i = first; i < end; ++i) {
    targets += windows_[static_cast<size_t>(i)].targets;
  }
  return targets;
}

}  // namespace plimsoll::data
