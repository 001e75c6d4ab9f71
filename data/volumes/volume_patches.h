// Patches of volumes: the parts that are read as samples. For training, they are chosen at random,
// a part of them around foreground (Isensee et al. 2021, "nnU-Net: a self-configuring method for
// deep learning-based biomedical image segmentation"). For evaluations, windows cover a volume.
// Along an axis where a patch is longer than the volume, the volume lies in its middle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample_random.h"
#include "data/volumes/volume.h"
#include "data/volumes/volume_augmentation.h"

namespace plimsoll::data {

// Voxels of a volume's foreground, by class.
class ForegroundIndex {
 public:
  static constexpr int64_t kMostVoxels = 10'000;  // that are kept of a class, spread over them all

  // `labels`: of a volume; 0 is background. The same labels have the same index.
  explicit ForegroundIndex(std::span<const uint8_t> labels);

  // For each class that is there, in their order, numbers of voxels, in their order.
  const std::vector<std::vector<int64_t>>& classes() const { return classes_; }

 private:
  std::vector<std::vector<int64_t>> classes_;
};

// Draws the first voxel of a patch. With probability `foreground` the patch is around a voxel of a
// class that is drawn among those of the index, as far as the volume's border allows; otherwise, or
// where there is no foreground, it is anywhere in the volume.
VoxelPlace DrawPatch(const VolumeSize& volume, const VolumeSize& patch,
                     const ForegroundIndex& index, double foreground, SampleRandom& random);

// The box of a volume from voxel `first` to before `end`.
struct VoxelBox {
  VoxelPlace first = {}, end = {};

  int64_t voxels() const { return (end[0] - first[0]) * (end[1] - first[1]) * (end[2] - first[2]); }
};

// The part of a patch that lies in the volume.
VoxelBox CoveredBy(const VolumeSize& volume, const VolumeSize& patch, const VoxelPlace& first);

// The voxels of a box of a labelled volume whose label isn't kNoLabel.
int64_t CountLabelled(const Volume& volume, const VoxelBox& box);

struct VolumeWindow {
  VoxelPlace first = {};  // of a patch
  VoxelBox own = {};      // voxels that it is nearer to than other windows: those that count in it
};

// Windows that cover a volume, in the order of their first voxels. Neighbours overlap by at least
// that part of a patch's side, 0 to below 1; the last ones end with the volume. Each voxel is one
// window's own.
std::vector<VolumeWindow> WindowsOf(const VolumeSize& volume, const VolumeSize& patch,
                                    double overlap);

// How many these are.
int64_t CountWindows(const VolumeSize& volume, const VolumeSize& patch, double overlap);

// Makes the labels [D,H,W] of a window kUnlabelled where voxels are not its own.
void KeepOwnLabels(const VolumeWindow& window, const VolumeSize& patch, std::span<int32_t> labels);

}  // namespace plimsoll::data
