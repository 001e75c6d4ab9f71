// Made-up volumes with known labels: ellipsoids (odd classes) and boxes (even classes) lie on a
// smooth background, class 0, under noise. Intensities of the background and of neighbouring
// classes overlap: a voxel alone tells its class in part, shape and surroundings tell the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/volumes/volume.h"

namespace plimsoll::data {

inline constexpr int64_t kMostVolumeClasses = 256;  // what uint8 labels can tell apart

struct SyntheticVolumeOptions {
  VolumeSize size;  // a depth of 1 makes a picture
  int64_t channels = 1;
  int64_t classes = 2;  // with the background: 2 to kMostVolumeClasses
};

// "background", "ellipsoid 1", "box 1", "ellipsoid 2", …
std::vector<std::string> SyntheticClassNames(int64_t classes);

// Fills voxels [D,H,W,C] and labels [D,H,W], either of which may be empty, with volume `number` of
// a seed. Intensities have about mean 0 and standard deviation 1 (with many classes, 2). It works
// in fixed point, so that the bits are the same with any compiler. Takes scratch memory once in
// each thread.
void FillSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number,
                         std::span<float> voxels, std::span<int32_t> labels);

// The same as a volume of its own, with voxels of 1 mm.
Volume MakeSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number);

}  // namespace plimsoll::data
