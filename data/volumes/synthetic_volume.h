// Made-up volumes with known labels: ellipsoids (odd classes) and boxes (even classes) on a smooth
// background, class 0, with noise. The intensities of the background and of neighbouring classes
// overlap, so a voxel's intensity determines its class only in part; shape and surroundings
// determine the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/volumes/volume.h"

namespace plimsoll::data {

// The number of classes that uint8 labels can distinguish.
inline constexpr int64_t kMostVolumeClasses = 256;

struct SyntheticVolumeOptions {
  VolumeSize size;  // a depth of 1 gives a 2-D image
  int64_t channels = 1;
  int64_t classes = 2;  // including the background: 2 to kMostVolumeClasses
};

// The names "background", "ellipsoid 1", "box 1", "ellipsoid 2", …
std::vector<std::string> SyntheticClassNames(int64_t classes);

// Fills voxels [D,H,W,C] and labels [D,H,W], either of which may be empty, with volume `number` of
// a seed. Intensities have about mean 0 and standard deviation 1 (with many classes, 2). Computes
// in fixed point, so that the bits do not depend on the compiler. Each thread allocates scratch
// memory once.
void FillSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number,
                         std::span<float> voxels, std::span<int32_t> labels);

// Returns the same as a Volume, with voxels of 1 mm.
Volume MakeSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number);

}  // namespace plimsoll::data
