#include "data/volumes/volume_preparation.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace plimsoll::data {
namespace {

// Each axis' number, or one for all; not given: zeros.
std::array<double, 3> SpacingFrom(const Settings& settings) {
  if (!settings.Has("spacing")) return {0, 0, 0};
  const std::vector<double>& given = settings.Floats("spacing");
  if (given.size() == 1) return {given[0], given[0], given[0]};
  if (given.size() == 3) return {given[0], given[1], given[2]};
  throw SettingError("spacing", fmt::format("{} numbers; give one for each of z, y and x, or one "
                                            "for all",
                                            given.size()));
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
