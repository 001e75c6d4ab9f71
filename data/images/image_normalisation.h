// Normalisation of images: the model sees (byte · rescale − mean) / std for each channel. C
// channels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/images/image_files.h"

namespace plimsoll::data {

inline constexpr double kRescale = 1.0 / 255;  // a channel's largest byte becomes 1

// The mean and standard deviation [C] of rescaled bytes.
struct ChannelStatistics {
  std::vector<double> mean, std;
};

// The statistics over all pixels of all images, rescaled by kRescale; std is the population's. Sums
// are exact and rounded once.
ChannelStatistics StatisticsOf(const LabelledImages& images);

// A table of each byte's normalised value, in the float32 operations of torchvision's ToTensor and
// Normalize.
class NormalisedBytes {
 public:
  // Each std must be above 0.
  explicit NormalisedBytes(const ChannelStatistics& statistics, double rescale = kRescale);

  int64_t channels() const { return static_cast<int64_t>(values_.size()); }
  float operator()(int64_t channel, uint8_t byte) const {
    return values_[static_cast<size_t>(channel)][byte];
  }

 private:
  std::vector<std::array<float, 256>> values_;  // [C]
};

}  // namespace plimsoll::data
