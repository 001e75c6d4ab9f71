// A labelled volume in memory, in RAS+ orientation: x increases to the patient's right, y to the
// front, z to the head. D, H, W: along z, y, x (W is contiguous), C channels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::data {

struct VolumeSize {
  int64_t depth = 0, height = 0, width = 0;

  int64_t voxels() const { return depth * height * width; }
  bool operator==(const VolumeSize&) const = default;
};

// The label of a voxel without label, which carries no loss.
inline constexpr uint8_t kNoLabel = 255;

struct Volume {
  std::string name;  // the file's name, without extensions
  VolumeSize size;
  int64_t channels = 1;
  std::array<double, 3> spacing = {1, 1, 1};  // in mm, along D, H, W
  std::vector<float> voxels;                  // [D,H,W,C]
  std::vector<uint8_t> labels;  // [D,H,W], classes or kNoLabel; empty: the volume is unlabelled
};

}  // namespace plimsoll::data
