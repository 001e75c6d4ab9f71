#include "data/volumes/volume_augmentation.h"

#include <algorithm>
#include <utility>

#include "data/sample_random.h"

namespace plimsoll::data {
namespace {

// Purposes of a sample's random numbers; channels use the numbers after these.
constexpr uint64_t kOrientation = 0, kIntensity = 1;

// How an axis of the patch maps to the volume.
struct AxisWalk {
  int64_t begin = 0, end = 0;      // the patch's range within the volume
  int64_t origin = 0, stride = 0;  // voxel i of the patch is element origin + i · stride
};

AxisWalk WalkOf(const Volume& volume, const PatchPlace& place, int64_t length, size_t axis) {
  const int64_t sides[] = {volume.size.depth, volume.size.height, volume.size.width};
  const int64_t strides[] = {volume.size.height * volume.size.width, volume.size.width, 1};
  const size_t from = place.orientation.from[axis];
  const int64_t first = place.first[from], side = sides[from];
  AxisWalk walk;
  if (place.orientation.reversed[axis]) {
    walk.begin = std::max<int64_t>(0, first + length - side);
    walk.end = std::min(length, first + length);
    walk.origin = (first + length - 1) * strides[from];
    walk.stride = -strides[from];
  } else {
    walk.begin = std::max<int64_t>(0, -first);
    walk.end = std::min(length, side - first);
    walk.origin = first * strides[from];
    walk.stride = strides[from];
  }
  return walk;
}

// Calls emit(patch voxel, volume voxel) for the patch's voxels that are inside the volume.
template <typename Emit>
void ForCovered(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                const Emit& emit) {
  const AxisWalk along_d = WalkOf(volume, place, patch.depth, 0);
  const AxisWalk along_h = WalkOf(volume, place, patch.height, 1);
  const AxisWalk along_w = WalkOf(volume, place, patch.width, 2);
  for (int64_t d = along_d.begin; d < along_d.end; ++d) {
    for (int64_t h = along_h.begin; h < along_h.end; ++h) {
      const int64_t to = (d * patch.height + h) * patch.width;
      const int64_t from = along_d.origin + d * along_d.stride + along_h.origin +
                           h * along_h.stride + along_w.origin;
      for (int64_t w = along_w.begin; w < along_w.end; ++w) emit(to + w, from + w * along_w.stride);
    }
  }
}

bool IsInside(const Volume& volume, const VoxelPlace& first, const VolumeSize& patch) {
  return first[0] >= 0 && first[0] + patch.depth <= volume.size.depth && first[1] >= 0 &&
         first[1] + patch.height <= volume.size.height && first[2] >= 0 &&
         first[2] + patch.width <= volume.size.width;
}

}  // namespace

void PatchOrientation::Rotate(size_t a, size_t b) {
  std::swap(from[a], from[b]);
  std::swap(reversed[a], reversed[b]);
  reversed[a] = !reversed[a];
}

PatchOrientation VolumeAugmentation::DrawOrientation(const VolumeSize& patch, uint64_t seed,
                                                     int64_t sample) const {
  PatchOrientation drawn;
  SampleRandom random(seed, sample, kOrientation);
  if (rotate90) {
    const int64_t sides[] = {patch.depth, patch.height, patch.width};
    for (const auto& [a, b] : {std::pair<size_t, size_t>{0, 1}, {0, 2}, {1, 2}}) {
      if (sides[a] != sides[b]) continue;
      for (int64_t turns = random.Below(4); turns > 0; --turns) drawn.Rotate(a, b);
    }
  }
  for (size_t axis = 0; flip && axis < 3; ++axis) {
    if (random.Below(2) == 1) drawn.Flip(axis);
  }
  return drawn;
}

IntensityChange VolumeAugmentation::DrawIntensity(int64_t channel, uint64_t seed,
                                                  int64_t sample) const {
  SampleRandom random(seed, sample, kIntensity + static_cast<uint64_t>(channel));
  IntensityChange drawn;
  drawn.factor = static_cast<float>(random.Uniform(1 - scale, 1 + scale));
  drawn.shift = static_cast<float>(random.Uniform(-shift, shift));
  return drawn;
}

void CopyChannel(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                 int64_t channel, const IntensityChange& change, std::span<float> voxels) {
  const int64_t channels = volume.channels;
  float* const to = voxels.data() + channel;
  const float* const from = volume.voxels.data() + channel;
  if (!IsInside(volume, place.first, patch)) {
    for (int64_t i = 0; i < patch.voxels(); ++i) to[i * channels] = 0;
  }
  ForCovered(volume, place, patch, [&](int64_t in_patch, int64_t in_volume) {
    to[in_patch * channels] = change.factor * from[in_volume * channels] + change.shift;
  });
}

void CopyLabels(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                std::span<int32_t> labels) {
  if (volume.labels.empty() || !IsInside(volume, place.first, patch)) {
    std::ranges::fill(labels, kUnlabelled);
  }
  if (volume.labels.empty()) return;
  ForCovered(volume, place, patch, [&](int64_t in_patch, int64_t in_volume) {
    const uint8_t label = volume.labels[static_cast<size_t>(in_volume)];
    labels[static_cast<size_t>(in_patch)] = label == kNoLabel ? kUnlabelled : label;
  });
}

}  // namespace plimsoll::data
