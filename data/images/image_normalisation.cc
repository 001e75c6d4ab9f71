#include "data/images/image_normalisation.h"

#include <cmath>

#include "base/error.h"

namespace plimsoll::data {

ChannelStatistics StatisticsOf(const LabelledImages& images) {
  const auto channels = static_cast<size_t>(images.size.channels);
  if (channels == 0 || images.pixels.empty()) throw InternalError("statistics of no images");
  // A histogram of the bytes: sums of integers do not depend on the order of adding.
  std::vector<std::array<uint64_t, 256>> counts(channels);
  for (size_t pixel = 0; pixel < images.pixels.size(); pixel += channels) {
    for (size_t c = 0; c < channels; ++c) ++counts[c][images.pixels[pixel + c]];
  }

  ChannelStatistics statistics;
  for (const std::array<uint64_t, 256>& of_byte : counts) {
    uint64_t count = 0, sum = 0, squares = 0;
    for (uint64_t byte = 0; byte < of_byte.size(); ++byte) {
      count += of_byte[byte];
      sum += of_byte[byte] * byte;
      squares += of_byte[byte] * byte * byte;
    }
    // n²·variance = n·Σx² − (Σx)², in integers, without the cancellation of floating point.
    using Wide = unsigned __int128;
    const auto scaled = static_cast<double>(Wide{count} * squares - Wide{sum} * sum);
    const auto n = static_cast<double>(count);
    statistics.mean.push_back(static_cast<double>(sum) / n / 255);
    statistics.std.push_back(std::sqrt(scaled) / n / 255);
  }
  return statistics;
}

NormalisedBytes::NormalisedBytes(const ChannelStatistics& statistics, double rescale)
    : values_(statistics.mean.size()) {
  for (size_t c = 0; c < values_.size(); ++c) {
    const auto mean = static_cast<float>(statistics.mean[c]);
    const auto std = static_cast<float>(statistics.std[c]);
    for (size_t byte = 0; byte < values_[c].size(); ++byte) {
      // kRescale divides by 255, as ToTensor does; any other factor is multiplied in float64, as
      // transformers does.
      const float rescaled = rescale == kRescale
                                 ? static_cast<float>(byte) / 255.0f
                                 : static_cast<float>(static_cast<double>(byte) * rescale);
      values_[c][byte] = (rescaled - mean) / std;
    }
  }
}

}  // namespace plimsoll::data
