#include "data/volumes/volume_normalisation.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::data {
namespace {

// Calls change(value) for a channel's voxels.
template <typename Change>
void ForChannel(Volume& volume, int64_t channel, const Change& change) {
  const auto step = static_cast<size_t>(volume.channels);
  for (size_t i = static_cast<size_t>(channel); i < volume.voxels.size(); i += step) {
    change(volume.voxels[i]);
  }
}

void ToZScores(Volume& volume, int64_t channel) {
  const auto count = static_cast<double>(volume.size.voxels());
  double sum = 0, squares = 0;
  ForChannel(volume, channel, [&](float& value) { sum += value; });
  const double mean = sum / count;
  ForChannel(volume, channel, [&](float& value) { squares += (value - mean) * (value - mean); });
  const double std = std::sqrt(squares / count);
  const double factor = std > 0 ? 1 / std : 1;
  ForChannel(volume, channel,
             [&](float& value) { value = static_cast<float>((value - mean) * factor); });
}

}  // namespace

void Normalise(const VolumeNormalisation& normalisation, Volume& volume) {
  if (normalisation.clip) {
    const auto low = static_cast<float>(normalisation.clip->low);
    const auto high = static_cast<float>(normalisation.clip->high);
    for (float& value : volume.voxels) value = std::clamp(value, low, high);
  }
  for (int64_t c = 0; normalisation.z_score && c < volume.channels; ++c) ToZScores(volume, c);
}

}  // namespace plimsoll::data
