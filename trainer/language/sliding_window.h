// Merges the logits of overlapping windows into a segmentation of a volume. A window weighs more in
// its middle, where a model sees what is around a voxel: Isensee et al. 2021, "nnU-Net: a
// self-configuring method for deep learning-based biomedical image segmentation". Weights and
// results are those of MONAI's sliding_window_inference with mode="gaussian".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/volumes/volume.h"
#include "data/volumes/volume_augmentation.h"

namespace plimsoll::trainer {

// [D,H,W] of a patch: the product over its axes of exp(−x² / 2σ²), where x is the distance from the
// middle and σ an eighth of the side; but at least 1/1000, so that no voxel counts for nothing.
std::vector<float> WindowWeights(const data::VolumeSize& patch);

// The sums of a slab: slices at D = `first` and after it, as many as a window is deep. Windows come
// in the order of their first slices, so that no later window reaches the slices before a window's
// first one. Those are finished: they are handed over, and their memory is used again.
class SlidingWindow {
 public:
  // Gets each slice of the volume once, in order: its place along D, and [H,W,K], Σ weight · logit
  // over the windows.
  using Finished = std::function<void(int64_t depth, std::span<const float> sums)>;

  // K classes.
  SlidingWindow(const data::VolumeSize& volume, const data::VolumeSize& patch, int64_t classes,
                Finished finished);

  // The slices whose sums are held at a time: those of a window, at most those of the volume.
  static int64_t Slices(const data::VolumeSize& volume, const data::VolumeSize& patch);
  // The memory of sums and weights: 4 bytes for each class and voxel of the slices, and for each
  // voxel of a patch.
  static int64_t Bytes(const data::VolumeSize& volume, const data::VolumeSize& patch,
                       int64_t classes);

  // Adds the logits [D,H,W,K] of the patch from voxel `first` on. What lies beyond the volume is
  // passed over. InternalError: `first` is at a smaller D than before.
  void Add(const data::VoxelPlace& first, std::span<const float> logits);
  // Hands over all slices that are left: there are no more windows.
  void Finish() { FinishBefore(volume_.depth); }

 private:
  void FinishBefore(int64_t depth);
  std::span<float> Slice(int64_t depth);  // of the slab

  data::VolumeSize volume_, patch_;
  size_t classes_;
  Finished finished_;
  int64_t slices_;
  int64_t first_ = 0;  // of the slab: all slices before it are finished
  std::vector<float> weights_;
  std::vector<float> sums_;  // [slices_,H,W,K]: a slice lies at its place along D modulo slices_
};

// Writes the class of the largest sum of each voxel, of equal ones the smaller number. Dividing by
// the sum of a voxel's weights would not change it. sums: [voxels,K], K at most 256.
void LikeliestClasses(std::span<const float> sums, std::span<uint8_t> classes);

}  // namespace plimsoll::trainer
