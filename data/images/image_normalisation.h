// Normalisation of images: a model sees, in place of an image's bytes, (x · rescale − mean) / std,
// by channel. C channels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/images/image_files.h"

namespace plimsoll::data {

inline constexpr double kRescale = 1.0 / 255;  // a channel's largest byte becomes 1

// [C] each, of rescaled bytes.
struct ChannelStatistics {
  std::vector<double> mean, std;
};

// Over all pixels of all images, with kRescale; std is that of the population. Exact sums, rounded
// once.
ChannelStatistics StatisticsOf(const LabelledImages& images);

// The normalised value of each byte, in float32 operations as torchvision's ToTensor and Normalize
// do them.
class NormalisedBytes {
 public:
  // Each std is above 0.
  explicit NormalisedBytes(const ChannelStatistics& statistics, double rescale = kRescale);

  int64_t channels() const { return static_cast<int64_t>(values_.size()); }
  float operator()(int64_t channel, uint8_t byte) const {
    return values_[static_cast<size_t>(channel)][byte];
  }

 private:
  std::vector<std::array<float, 256>> values_;  // [C]
};

}  // namespace plimsoll::data
