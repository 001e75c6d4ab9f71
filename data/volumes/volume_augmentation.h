// Data augmentation of volumes in training: a patch is flipped, rotated by multiples of 90°, and
// its intensities are scaled and shifted, as MONAI's RandFlip, RandRotate90, RandScaleIntensity and
// RandShiftIntensity do. D × H × W patch, C channels; axes 0, 1, 2 are those of D, H, W.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/volumes/volume.h"

namespace plimsoll::data {

// A voxel's place along D, H, W.
using VoxelPlace = std::array<int64_t, 3>;

inline constexpr int32_t kUnlabelled = -1;  // the label of voxels that count for nothing

// Which way a patch lies in its volume: along axis a, the patch runs along axis from[a] of the
// volume, backwards where reversed[a] is true.
struct PatchOrientation {
  std::array<size_t, 3> from = {0, 1, 2};
  std::array<bool, 3> reversed = {};

  // Mirrors the patch along an axis of its own.
  void Flip(size_t axis) { reversed[axis] = !reversed[axis]; }
  // Turns it by 90° from axis a to axis b, as numpy.rot90(patch, axes=(a, b)).
  void Rotate(size_t a, size_t b);
  bool operator==(const PatchOrientation&) const = default;
};

// A channel's intensity x becomes factor · x + shift.
struct IntensityChange {
  float factor = 1, shift = 0;
};

// What training does to patches. Evaluations do none of it.
struct VolumeAugmentation {
  bool flip = false;      // along each axis, with probability ½
  bool rotate90 = false;  // in each plane whose two sides are equal, by 0°, 90°, 180° or 270°
  double scale = 0;       // factors are drawn from 1 ± scale, one for each channel
  double shift = 0;       // shifts from 0 ± shift

  // All that is drawn depends on the seed and the sample's number alone.
  PatchOrientation DrawOrientation(const VolumeSize& patch, uint64_t seed, int64_t sample) const;
  IntensityChange DrawIntensity(int64_t channel, uint64_t seed, int64_t sample) const;
};

// Where a patch lies: the box of `size` from voxel `first` on, which may reach out of the volume.
struct PatchPlace {
  VoxelPlace first = {};
  PatchOrientation orientation = {};  // axes that change places have sides of equal length
};

// Writes a patch of a volume's channel into every C-th of `voxels` [D,H,W,C], from that channel
// on. Beyond the volume they are 0.
void CopyChannel(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                 int64_t channel, const IntensityChange& change, std::span<float> voxels);
// Writes its labels, [D,H,W]. Beyond the volume, where it has kNoLabel, or of one without labels,
// they are kUnlabelled.
void CopyLabels(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                std::span<int32_t> labels);

}  // namespace plimsoll::data
