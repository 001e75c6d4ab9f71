// Patches of volumes: the parts that are read as samples. In training, patches are drawn at random,
// and a fraction of them is around foreground (Isensee et al. 2021, "nnU-Net: a self-configuring
// method for deep learning-based biomedical image segmentation"). In evaluation, windows cover a
// volume. If a volume is smaller than a patch along an axis, the patch is padded on both sides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample_random.h"
#include "data/volumes/volume.h"
#include "data/volumes/volume_augmentation.h"

namespace plimsoll::data {

// A sample of a volume's foreground voxels, by class.
class ForegroundIndex {
 public:
  // Voxels kept of each class, spread evenly over all voxels of that class.
  static constexpr int64_t kMostVoxels = 10'000;

  // `labels`: the labels of a volume; 0 is background. The index depends only on the labels.
  explicit ForegroundIndex(std::span<const uint8_t> labels);

  // For each class that occurs, in order of the classes, the ascending numbers of its voxels.
  const std::vector<std::vector<int64_t>>& classes() const { return classes_; }

 private:
  std::vector<std::vector<int64_t>> classes_;
};

// Draws the first voxel of a patch. With probability `foreground`, the patch is centred on a voxel
// of a random class of the index, as far as the volume's border allows. Otherwise, or if there is
// no foreground, the patch is anywhere in the volume.
VoxelPlace DrawPatch(const VolumeSize& volume, const VolumeSize& patch,
                     const ForegroundIndex& index, double foreground, SampleRandom& random);

// A box of voxels in a volume, from `first` to before `end` along each axis.
struct VoxelBox {
  VoxelPlace first = {}, end = {};

  int64_t voxels() const { return (end[0] - first[0]) * (end[1] - first[1]) * (end[2] - first[2]); }
};

// The part of a patch that is inside the volume.
VoxelBox CoveredBy(const VolumeSize& volume, const VolumeSize& patch, const VoxelPlace& first);

// The number of voxels in a box of a labelled volume whose label is not kNoLabel.
int64_t CountLabelled(const Volume& volume, const VoxelBox& box);

struct VolumeWindow {
  VoxelPlace first = {};  // first voxel of the window's patch
  // The voxels nearer to this window than to others; only their predictions count.
  VoxelBox own = {};
};

// Returns windows that cover a volume, sorted by their first voxels. Neighbours overlap by at least
// `overlap`, a fraction of a patch's side, 0 to below 1. The last windows end with the volume. Each
// voxel is `own` of exactly one window.
std::vector<VolumeWindow> WindowsOf(const VolumeSize& volume, const VolumeSize& patch,
                                    double overlap);

// The number of windows that WindowsOf returns.
int64_t CountWindows(const VolumeSize& volume, const VolumeSize& patch, double overlap);

// Sets the labels [D,H,W] of a window to kUnlabelled for voxels that are not the window's own.
void KeepOwnLabels(const VolumeWindow& window, const VolumeSize& patch, std::span<int32_t> labels);

}  // namespace plimsoll::data
