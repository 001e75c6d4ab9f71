// Merges the logits of overlapping windows into a segmentation of a volume. A window weighs more in
// its middle, where a model sees what is around a voxel: Isensee et al. 2021, "nnU-Net: a
// self-configuring method for deep learning-based biomedical image segmentation". Weights and
// results are those of MONAI's sliding_window_inference with mode="gaussian".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/volumes/volume.h"
#include "data/volumes/volume_augmentation.h"

namespace plimsoll::trainer {

// [D,H,W] of a patch: the product over its axes of exp(−x² / 2σ²), where x is the distance from the
// middle and σ an eighth of the side; but at least 1/1000, so that no voxel counts for nothing.
std::vector<float> WindowWeights(const data::VolumeSize& patch);

class SlidingWindow {
 public:
  // K classes, at most 256.
  SlidingWindow(const data::VolumeSize& volume, const data::VolumeSize& patch, int64_t classes);

  // What the sums of a volume take: 4 bytes for each voxel and class.
  static int64_t Bytes(const data::VolumeSize& volume, int64_t classes);

  // Adds the logits [D,H,W,K] of the patch from voxel `first` on. What lies beyond the volume is
  // passed over.
  void Add(const data::VoxelPlace& first, std::span<const float> logits);

  // [D,H,W,K] of the volume: Σ weight · logit over the windows added so far.
  std::span<const float> sums() const { return sums_; }
  // [D,H,W]: the class of the largest sum, of equal ones the smaller number. Dividing by the sum of
  // a voxel's weights would not change it.
  std::vector<uint8_t> Classes() const;

 private:
  data::VolumeSize volume_, patch_;
  size_t classes_;
  std::vector<float> weights_, sums_;
};

}  // namespace plimsoll::trainer
