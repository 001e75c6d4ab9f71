// Merges the logits of overlapping windows into those of a volume. Voxels in the middle of
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
#include "data/volumes/volume_patches.h"

namespace plimsoll::trainer {

// Weights [D,H,W] of a patch's voxels: the product over axes of exp(−x² / 2σ²), where x is the
// distance from the middle and σ an eighth of the side. A weight is at least 1/1000, so that every
// voxel counts.
std::vector<float> WindowWeights(const data::VolumeSize& patch);

// Sums the weighted logits of a slab: as many slices along D as a window has. Windows come in the
// order of their first slices. So no later window reaches the slices before a window's first slice:
// these slices are finished, are passed on, and their memory is reused.
class SlidingWindow {
 public:
  // Receives each slice of the volume once, in order: its logits [H,W,K], the weighted means over
  // the windows.
  using Finished = std::function<void(std::span<const float> logits)>;

  // `windows` cover the volume, in the order of their first slices (data::WindowsOf), and must
  // outlive this object. `classes` is K, the number of classes.
  SlidingWindow(const data::VolumeSize& volume, const data::VolumeSize& patch,
                std::span<const data::VolumeWindow> windows, int64_t classes, Finished finished);

  // The number of slices in memory at a time: the depth of a window, at most that of the volume.
  static int64_t Slices(const data::VolumeSize& volume, const data::VolumeSize& patch);
  // The bytes of sums and weights: 4 for each class and voxel of the slices, for each voxel of a
  // patch, and for each voxel of one slice.
  static int64_t Bytes(const data::VolumeSize& volume, const data::VolumeSize& patch,
                       int64_t classes);

  // Adds the logits [D,H,W,K] of the next window. Skips voxels outside the volume. Throws an
  // InternalError if a window has a smaller D than the one before it.
  void Add(std::span<const float> logits);
  // Passes on all remaining slices. Throws an InternalError before the last window.
  void Finish();

 private:
  void FinishBefore(int64_t depth);
  // Divides the sums of a slice by the total weights of its voxels.
  void DivideSums(int64_t depth);
  std::span<float> Slice(int64_t depth);  // a slice of the slab

  data::VolumeSize volume_, patch_;
  std::span<const data::VolumeWindow> windows_;
  size_t added_ = 0;  // the number of windows added so far
  size_t classes_;
  Finished finished_;
  int64_t slices_;
  int64_t first_ = 0;  // the slab's first slice; all slices before it are finished
  std::vector<float> weights_;
  std::vector<float> sums_;    // [slices_,H,W,K]; slice d is at index d modulo slices_
  std::vector<float> totals_;  // [H,W], the total weights of a slice's voxels
};

}  // namespace plimsoll::trainer
