// The command `plimsoll data volumes`: writes synthetic volumes as files.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "app/data_commands.h"
#include "base/error.h"
#include "base/output_file.h"
#include "formats/nifti.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr float kUnit = 1000;             // int16 value of intensity 1
constexpr int64_t kMostSide = 1024;       // longest side of a volume
constexpr int64_t kMostVolumes = 10'000;  // volumes' names have four digits

void Check(const WriteVolumesOptions& options) {
  const VolumeSize& size = options.volume.size;
  for (const int64_t side : {size.depth, size.height, size.width}) {
    if (side < 1 || side > kMostSide) {
      throw UserError(fmt::format("--size {}: give 1 to {} voxels for each side", side, kMostSide));
    }
  }
  const int64_t classes = options.volume.classes;
  if (classes < 2 || classes > kMostVolumeClasses) {
    throw UserError(fmt::format("--classes {}: give 2, with the background, to {}", classes,
                                kMostVolumeClasses));
  }
  if (options.train < 1 || options.test < 0 || options.train + options.test > kMostVolumes) {
    throw UserError(
        fmt::format("--train {} --test {}: write at least one volume to train on, and "
                    "{} in all at most",
                    options.train, options.test, kMostVolumes));
  }
}

void MakeFolders(const std::vector<fs::path>& folders) {
  std::error_code error;
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder, error)) continue;
    throw UserError(
        fmt::format("{}: is there already; choose another folder, or remove it", folder.string()));
  }
  for (const fs::path& folder : folders) {
    fs::create_directories(folder, error);
    if (!error) continue;
    throw UserError(fmt::format("{}: the folder cannot be made: {}; choose another one",
                                folder.string(), error.message()));
  }
}

// Transposes a volume from [D,H,W,C] to [C,z,y,x].
std::vector<int16_t> ImageValues(const Volume& volume) {
  std::vector<int16_t> values;
  values.reserve(volume.voxels.size());
  const auto channels = static_cast<size_t>(volume.channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = c; i < volume.voxels.size(); i += channels) {
      values.push_back(static_cast<int16_t>(std::lround(volume.voxels[i] * kUnit)));
    }
  }
  return values;
}

// Writes one part's volumes and returns the members of dataset.json that list them.
nlohmann::ordered_json WritePart(const WriteVolumesOptions& options, const std::string& part,
                                 int64_t first, int64_t count) {
  const fs::path folder = options.folder;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int64_t number = first; number < first + count; ++number) {
    const Volume volume = MakeSyntheticVolume(options.volume, options.seed, number);
    const VolumeSize& size = volume.size;
    formats::NiftiGrid grid = {
        .size = {size.width, size.height, size.depth},
        .channels = volume.channels,
        .affine = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}},
    };
    const std::string image = fmt::format("images{}/{}.nii.gz", part, volume.name);
    const std::string label = fmt::format("labels{}/{}.nii.gz", part, volume.name);
    const std::vector<int16_t> values = ImageValues(volume);
    formats::WriteNifti((folder / image).string(), grid, std::span<const int16_t>(values));
    grid.channels = 1;
    formats::WriteNifti((folder / label).string(), grid, std::span<const uint8_t>(volume.labels));
    list.push_back({{"image", "./" + image}, {"label", "./" + label}});
  }
  return list;
}

}  // namespace

void WriteVolumes(const WriteVolumesOptions& options) {
  Check(options);
  const fs::path folder = options.folder;
  std::vector<fs::path> folders = {folder / "imagesTr", folder / "labelsTr"};
  if (options.test > 0) {
    folders.push_back(folder / "imagesTs");
    folders.push_back(folder / "labelsTs");
  }
  MakeFolders(folders);
  nlohmann::ordered_json set = {{"name", "made-up volumes"}, {"tensorImageSize", "3D"}};
  for (int64_t c = 0; c < options.volume.channels; ++c) set["modality"][std::to_string(c)] = "none";
  const std::vector<std::string> names = SyntheticClassNames(options.volume.classes);
  for (size_t i = 0; i < names.size(); ++i) set["labels"][std::to_string(i)] = names[i];
  set["numTraining"] = options.train;
  set["numTest"] = options.test;
  set["training"] = WritePart(options, "Tr", 0, options.train);
  set["test"] = WritePart(options, "Ts", options.train, options.test);
  WriteWhole((folder / "dataset.json").string(), set.dump(2) + "\n");
}

}  // namespace plimsoll::data
