#include "data/volumes/volume_patches.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace plimsoll::data {
namespace {

std::array<int64_t, 3> SidesOf(const VolumeSize& size) {
  return {size.depth, size.height, size.width};
}

struct AxisWindow {
  int64_t first = 0, own_first = 0, own_end = 0;
};

std::vector<AxisWindow> WindowsAlong(int64_t side, int64_t length, double overlap) {
  if (length >= side) return {{.first = (side - length) / 2, .own_first = 0, .own_end = side}};
  const int64_t step =
      std::max<int64_t>(1, std::llround(std::floor(static_cast<double>(length) * (1 - overlap))));
  std::vector<AxisWindow> windows;
  for (int64_t first = 0; first < side - length; first += step) windows.push_back({.first = first});
  windows.push_back({.first = side - length, .own_end = side});
  for (size_t i = 1; i < windows.size(); ++i) {
    // The border is the middle of the overlap of both windows.
    windows[i].own_first = (windows[i].first + windows[i - 1].first + length) / 2;
    windows[i - 1].own_end = windows[i].own_first;
  }
  return windows;
}

}  // namespace

ForegroundIndex::ForegroundIndex(std::span<const uint8_t> labels) {
  std::array<int64_t, 256> counts = {};
  for (const uint8_t label : labels) ++counts[label];
  std::array<size_t, 256> place = {};  // index in classes_ by label
  for (size_t label = 1; label < counts.size(); ++label) {
    if (counts[label] == 0 || label == kNoLabel) continue;
    place[label] = classes_.size();
    classes_.emplace_back().reserve(static_cast<size_t>(std::min(counts[label], kMostVoxels)));
  }
  // If a class has more voxels than the limit, they are divided into kMostVoxels intervals, and a
  // hash picks one voxel of each.
  const auto pick = [&](size_t label, int64_t stretch) {
    const int64_t begin = stretch * counts[label] / kMostVoxels;
    const int64_t end = (stretch + 1) * counts[label] / kMostVoxels;
    const uint64_t random = Hash(label, static_cast<uint64_t>(stretch));
    return begin + static_cast<int64_t>(Below(random, static_cast<uint64_t>(end - begin)));
  };
  std::array<int64_t, 256> seen = {};
  for (size_t i = 0; i < labels.size(); ++i) {
    const size_t label = labels[i];
    if (label == 0 || label == kNoLabel) continue;
    std::vector<int64_t>& kept = classes_[place[label]];
    const bool keep =
        counts[label] <= kMostVoxels ||
        (std::ssize(kept) < kMostVoxels && seen[label] == pick(label, std::ssize(kept)));
    if (keep) kept.push_back(static_cast<int64_t>(i));
    ++seen[label];
  }
}

VoxelPlace DrawPatch(const VolumeSize& volume, const VolumeSize& patch,
                     const ForegroundIndex& index, double foreground, SampleRandom& random) {
  const std::array<int64_t, 3> sides = SidesOf(volume), lengths = SidesOf(patch);
  VoxelPlace first;
  if (random.Uniform() < foreground && !index.classes().empty()) {
    const auto& voxels =
        index.classes()[static_cast<size_t>(random.Below(std::ssize(index.classes())))];
    const int64_t voxel = voxels[static_cast<size_t>(random.Below(std::ssize(voxels)))];
    const VoxelPlace centre = {voxel / (volume.height * volume.width),
                               voxel / volume.width % volume.height, voxel % volume.width};
    for (size_t axis = 0; axis < 3; ++axis) {
      const int64_t last = std::max<int64_t>(0, sides[axis] - lengths[axis]);
      first[axis] = std::clamp<int64_t>(centre[axis] - lengths[axis] / 2, 0, last);
    }
  } else {
    for (size_t axis = 0; axis < 3; ++axis) {
      first[axis] = random.Below(std::max<int64_t>(0, sides[axis] - lengths[axis]) + 1);
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    if (lengths[axis] > sides[axis]) first[axis] = (sides[axis] - lengths[axis]) / 2;
  }
  return first;
}

VoxelBox CoveredBy(const VolumeSize& volume, const VolumeSize& patch, const VoxelPlace& first) {
  const std::array<int64_t, 3> sides = SidesOf(volume), lengths = SidesOf(patch);
  VoxelBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    box.first[axis] = std::max<int64_t>(0, first[axis]);
    box.end[axis] = std::min(sides[axis], first[axis] + lengths[axis]);
  }
  return box;
}

int64_t CountLabelled(const Volume& volume, const VoxelBox& box) {
  int64_t count = 0;
  for (int64_t d = box.first[0]; d < box.end[0]; ++d) {
    for (int64_t h = box.first[1]; h < box.end[1]; ++h) {
      const uint8_t* const row =
          volume.labels.data() + (d * volume.size.height + h) * volume.size.width;
      const std::span labels(row + box.first[2], row + box.end[2]);
      count += std::ssize(labels) - std::ranges::count(labels, kNoLabel);
    }
  }
  return count;
}

std::vector<VolumeWindow> WindowsOf(const VolumeSize& volume, const VolumeSize& patch,
                                    double overlap) {
  const std::vector<AxisWindow> along_d = WindowsAlong(volume.depth, patch.depth, overlap);
  const std::vector<AxisWindow> along_h = WindowsAlong(volume.height, patch.height, overlap);
  const std::vector<AxisWindow> along_w = WindowsAlong(volume.width, patch.width, overlap);
  std::vector<VolumeWindow> windows;
  windows.reserve(along_d.size() * along_h.size() * along_w.size());
  for (const AxisWindow& d : along_d) {
    for (const AxisWindow& h : along_h) {
      for (const AxisWindow& w : along_w) {
        windows.push_back({.first = {d.first, h.first, w.first},
                           .own = {.first = {d.own_first, h.own_first, w.own_first},
                                   .end = {d.own_end, h.own_end, w.own_end}}});
      }
    }
  }
  return windows;
}

int64_t CountWindows(const VolumeSize& volume, const VolumeSize& patch, double overlap) {
  const std::array<int64_t, 3> sides = SidesOf(volume), lengths = SidesOf(patch);
  int64_t count = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    count *= std::ssize(WindowsAlong(sides[axis], lengths[axis], overlap));
  }
  return count;
}

void KeepOwnLabels(const VolumeWindow& window, const VolumeSize& patch, std::span<int32_t> labels) {
  const auto is_own = [&](size_t axis, int64_t at) {
    const int64_t voxel = window.first[axis] + at;
    return voxel >= window.own.first[axis] && voxel < window.own.end[axis];
  };
  int32_t* label = labels.data();
  for (int64_t d = 0; d < patch.depth; ++d) {
    for (int64_t h = 0; h < patch.height; ++h) {
      const bool own_row = is_own(0, d) && is_own(1, h);
      for (int64_t w = 0; w < patch.width; ++w, ++label) {
        if (!own_row || !is_own(2, w)) *label = kUnlabelled;
      }
    }
  }
}

}  // namespace plimsoll::data
