#include "data/volumes/volume_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/amounts.h"

namespace plimsoll::data {
namespace {

// Calls change(value) for each voxel of a channel.
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

// Reads the spacing: a number for each axis, or one for all. Zeros if the setting is not given.
std::array<double, 3> SpacingFrom(const Settings& settings) {
  if (!settings.Has("spacing")) return {0, 0, 0};
  const std::vector<double>& given = settings.Floats("spacing");
  if (given.size() == 1) return {given[0], given[0], given[0]};
  if (given.size() == 3) return {given[0], given[1], given[2]};
  throw SettingError("spacing", fmt::format("{}; give one for each of z, y and x, or one "
                                            "for all",
                                            Counted(given.size(), "number")));
}

VolumeNormalisation NormalisationFrom(const Settings& settings) {
  VolumeNormalisation normalisation = {.z_score = settings.Text("normalise") == "z_score"};
  if (!settings.Has("clip")) return normalisation;
  const std::vector<double>& clip = settings.Floats("clip");
  if (clip.size() != 2 || clip[0] >= clip[1]) {
    throw SettingError("clip",
                       "give two numbers, the lowest intensity and a higher one, such as "
                       "[-100, 300]");
  }
  normalisation.clip = IntensityRange{clip[0], clip[1]};
  return normalisation;
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

Volume VolumePreparation::Read(const VolumeFile& file, formats::NiftiGrid* grid) const {
  Volume volume = ReadVolume(file, reading, grid);
  Normalise(normalisation, volume);
  return volume;
}

VolumePreparation VolumePreparationFrom(const Settings& settings, int64_t classes) {
  return {.reading = {.spacing = SpacingFrom(settings),
                      .resample = settings.Bool("resample"),
                      .most_voxels = settings.Int("most_voxels"),
                      .classes = classes},
          .normalisation = NormalisationFrom(settings)};
}

}  // namespace plimsoll::data
