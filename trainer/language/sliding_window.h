// Merges the logits of overlapping windows into a segmentation of a volume. Voxels in the middle of
// a window, whose surroundings the model sees, have a larger weight than voxels at its borders:
// Isensee et al. 2021, "nnU-Net: a self-configuring method for deep learning-based biomedical image
// segmentation". Weights and results equal those of MONAI's sliding_window_inference with
// mode="gaussian".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/volumes/volume.h"
#include "data/volumes/volume_augmentation.h"

namespace plimsoll::trainer {

// Weights [D,H,W] of a patch's voxels: the product over axes of exp(−x² / 2σ²), where x is the
// distance from the middle and σ an eighth of the side. A weight is at least 1/1000, so that every
// voxel counts.
std::vector<float> WindowWeights(const data::VolumeSize& patch);

// Sums the weighted logits of a slab: as many slices along D, from D = `first` on, as a window has.
// Windows must come in the order of their first slices. So no later window reaches the slices
// before a window's first slice: these slices are finished, are passed on, and their memory is
// reused.
class SlidingWindow {
 public:
  // Receives each slice of the volume once, in order: the slice's index along D, and [H,W,K], the
  // sum of weight · logit over the windows.
  using Finished = std::function<void(int64_t depth, std::span<const float> sums)>;

  // `classes` is K, the number of classes.
  SlidingWindow(const data::VolumeSize& volume, const data::VolumeSize& patch, int64_t classes,
                Finished finished);

  // The number of slices in memory at a time: the depth of a window, at most that of the volume.
  static int64_t Slices(const data::VolumeSize& volume, const data::VolumeSize& patch);
  // The bytes of sums and weights: 4 for each class and voxel of the slices, and 4 for each voxel
  // of a patch.
  static int64_t Bytes(const data::VolumeSize& volume, const data::VolumeSize& patch,
                       int64_t classes);

  // Adds the logits [D,H,W,K] of the patch that begins at voxel `first`. Skips voxels outside the
  // volume. Throws an InternalError if `first` has a smaller D than that of the previous patch.
  void Add(const data::VoxelPlace& first, std::span<const float> logits);
  // Passes on all remaining slices. Call this after the last window.
  void Finish() { FinishBefore(volume_.depth); }

 private:
  void FinishBefore(int64_t depth);
  std::span<float> Slice(int64_t depth);  // a slice of the slab

  data::VolumeSize volume_, patch_;
  size_t classes_;
  Finished finished_;
  int64_t slices_;
  int64_t first_ = 0;  // the slab's first slice; all slices before it are finished
  std::vector<float> weights_;
  std::vector<float> sums_;  // [slices_,H,W,K]; slice d is at index d modulo slices_
};

// Writes for each voxel the class with the largest sum; of classes with equal sums the smaller
// number. Dividing the sums by the voxel's weights would not change the class. `sums` is
// [voxels,K], K at most 256.
void LikeliestClasses(std::span<const float> sums, std::span<uint8_t> classes);

}  // namespace plimsoll::trainer
