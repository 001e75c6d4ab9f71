// Data augmentation of volumes for training. A patch is flipped, rotated by multiples of 90°, and
// its intensities are scaled and shifted, as by MONAI's RandFlip, RandRotate90, RandScaleIntensity
// and RandShiftIntensity. D × H × W patch, C channels; axes 0, 1, 2 are D, H, W.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/volumes/volume.h"

namespace plimsoll::data {

// A voxel's position along D, H, W.
using VoxelPlace = std::array<int64_t, 3>;

inline constexpr int32_t kUnlabelled = -1;  // the label of voxels that carry no loss

// A patch's orientation in its volume: axis a of the patch is axis from[a] of the volume, reversed
// if reversed[a].
struct PatchOrientation {
  std::array<size_t, 3> from = {0, 1, 2};
  std::array<bool, 3> reversed = {};

  // Mirrors the patch along its own axis `axis`.
  void Flip(size_t axis) { reversed[axis] = !reversed[axis]; }
  // Rotates the patch by 90° from axis a to axis b, as numpy.rot90(patch, axes=(a, b)).
  void Rotate(size_t a, size_t b);
  bool operator==(const PatchOrientation&) const = default;
};

// An affine change of a channel's intensities: x becomes factor · x + shift.
struct IntensityChange {
  float factor = 1, shift = 0;
};

// The augmentation of training patches. Evaluation applies none of it.
struct VolumeAugmentation {
  bool flip = false;      // along each axis, with probability ½
  bool rotate90 = false;  // in each plane with two equal sides, by 0°, 90°, 180° or 270°
  double scale = 0;       // factors are drawn from 1 ± scale, one for each channel
  double shift = 0;       // shifts are drawn from 0 ± shift

  // All random draws depend only on the seed and the sample's number.
  PatchOrientation DrawOrientation(const VolumeSize& patch, uint64_t seed, int64_t sample) const;
  IntensityChange DrawIntensity(int64_t channel, uint64_t seed, int64_t sample) const;
};

// A patch's place: the box of `size` that begins at voxel `first` and may extend beyond the volume.
struct PatchPlace {
  VoxelPlace first = {};
  PatchOrientation orientation = {};  // only swaps axes of equal length
};

// Writes a patch of one channel of a volume into that channel of `voxels` [D,H,W,C]. Voxels outside
// the volume become 0.
void CopyChannel(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                 int64_t channel, const IntensityChange& change, std::span<float> voxels);
// Writes the patch's labels [D,H,W]. They become kUnlabelled outside the volume, where the volume
// has kNoLabel, and if the volume has no labels.
void CopyLabels(const Volume& volume, const PatchPlace& place, const VolumeSize& patch,
                std::span<int32_t> labels);

}  // namespace plimsoll::data
