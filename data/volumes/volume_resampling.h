// Resamples volumes to another spacing: images and the scores of classes by trilinear
// interpolation, labels by the interpolated shares of classes. In all three the outer borders of
// the volume stay in place: the centre of voxel i of D is at (i + 1/2) · d/D − 1/2 in units of the
// d source voxels. Before the first and after the last source centre, the border voxel counts
// alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/volumes/volume.h"

namespace plimsoll::data {

// The size whose voxels come closest to the `wanted` spacing: round(length · spacing / wanted) for
// each axis, at least 1 and at most 2^20.
VolumeSize SizeAt(const VolumeSize& size, const std::array<double, 3>& spacing,
                  const std::array<double, 3>& wanted);

// One of the voxels along an axis of the new size: its centre lies between those of two source
// voxels.
struct AxisPlace {
  int64_t low = 0, high = 0;
  float share = 0;  // the weight of `high`, from 0 to 1
  // The two weights in exact proportion, so that equal shares of classes compare equal. Their sum
  // is at most 2^21, and products for three axes fit into 64 bits.
  uint64_t low_weight = 1, high_weight = 0;
};

// Resamples voxels [d,h,w,C] to [D,H,W,C].
std::vector<float> ResampledLinear(std::span<const float> voxels, const VolumeSize& from,
                                   const VolumeSize& to, int64_t channels);

// The version of ResampledLabels. Snapshots store it, since a run that continues with another one
// trains on other labels. Version 1 took the label of the nearest voxel.
inline constexpr int64_t kLabelResampling = 2;

// Resamples labels [d,h,w] to [D,H,W]. The share of a class is 1 in its voxels and 0 in others; it
// is interpolated, and the class with the largest share is taken. kNoLabel counts as a class.
// Classes often have equal shares, for example along half of all flat borders when the spacing
// doubles. Then voxels with an even sum of their indices take the smallest of these classes, and
// others the largest. So borders move in no direction on average, and no class grows.
std::vector<uint8_t> ResampledLabels(std::span<const uint8_t> labels, const VolumeSize& from,
                                     const VolumeSize& to);

// Resamples scores [d,h,w,K] of K ≤ 256 classes to [D,H,W], and takes the class with the largest
// score for each voxel; of equal scores that of the smaller number. Scores arrive slice by slice,
// and only one slice is kept.
class LikeliestClasses {
 public:
  LikeliestClasses(const VolumeSize& from, const VolumeSize& to, int64_t classes);

  // The memory in bytes, without the classes themselves.
  static int64_t Bytes(const VolumeSize& from, const VolumeSize& to, int64_t classes);

  // Takes the scores [h,w,K] of the next slice.
  void AddSlice(std::span<const float> scores);
  // The classes [D,H,W]. Call this after the last slice.
  std::vector<uint8_t> Take();

 private:
  // Adds the classes of a slice of the new size; `low` and `high` are the scores around it.
  void AddClasses(float share, std::span<const float> low, std::span<const float> high);

  size_t classes_, row_;  // row_: the number of scores of a source row
  std::vector<AxisPlace> depths_, heights_, widths_;
  int64_t slices_ = 0, done_ = 0;        // source slices added, and new slices finished
  std::vector<float> previous_, mixed_;  // the slice before the next one, and a row
  std::vector<uint8_t> result_;
};

}  // namespace plimsoll::data
