#include "data/volumes/volume_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "data/volumes/volume_resampling.h"

namespace plimsoll::data {
namespace {

using formats::NiftiGrid;
using formats::NiftiVolume;

// Tolerance of affines in mm, and relative tolerance of spacings.
constexpr double kTolerance = 1e-3;

std::string Voxels(const NiftiGrid& grid) {
  return fmt::format("{} voxels", fmt::join(grid.size, " × "));
}

// Names the voxel (x, y, z) of a value, and its channel if there are several.
std::string Place(const NiftiGrid& grid, size_t value) {
  auto rest = static_cast<int64_t>(value);
  std::array<int64_t, 3> place;
  for (size_t i = 0; i < 3; ++i) {
    place[i] = rest % grid.size[i];
    rest /= grid.size[i];
  }
  std::string text = fmt::format("voxel ({})", fmt::join(place, ","));
  if (grid.channels > 1) text += fmt::format(" of channel {}", rest);
  return text;
}

void RequireFinite(const NiftiVolume& image, const std::string& path) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto first = std::ranges::find_if_not(image.values, finite);
  if (first == image.values.end()) return;
  const auto count = std::ranges::count_if(first, image.values.end(), std::not_fn(finite));
  throw UserError(
      fmt::format("{}: {} {} not finite, the first is {} with {}; set such voxels to a number",
                  path, Counted(count, "voxel"), count == 1 ? "is" : "are",
                  Place(image.grid, static_cast<size_t>(first - image.values.begin())), *first));
}

// Throws a UserError unless two files of one volume have the same grid: `grid` is the grid of
// `path`, `expected` the grid of `other`.
void RequireSameGrid(const NiftiGrid& grid, const std::string& path, const NiftiGrid& expected,
                     const std::string& other) {
  if (grid.size != expected.size) {
    throw UserError(fmt::format("{}: has {}, and {} has {}; take both from one data set", path,
                                Voxels(grid), other, Voxels(expected)));
  }
  double largest = 0;
  for (size_t i = 0; i < 12; ++i) {
    const double difference = grid.affine[i / 4][i % 4] - expected.affine[i / 4][i % 4];
    largest = std::max(largest, std::abs(difference));
  }
  if (largest > kTolerance) {
    throw UserError(fmt::format(
        "{}: lies elsewhere than {}: their affines differ by up to {:.3g}; resample one "
        "onto the other's voxels",
        path, other, largest));
  }
}

void RequireLabelGrid(const NiftiGrid& label, const NiftiGrid& image, const VolumeFile& file) {
  if (label.channels != 1) {
    throw UserError(fmt::format(
        "{}: has {}, and labels have one; write a number for each class into one channel",
        file.label, Counted(label.channels, "channel")));
  }
  RequireSameGrid(label, file.label, image, file.images.front());
}

// Reads the grid of the volume, with all its channels, from the headers of its files. Throws a
// UserError if the files do not match each other. Reads no voxel.
NiftiGrid GridOf(const VolumeFile& file, int64_t most_voxels) {
  NiftiGrid grid;
  for (const std::string& path : file.images) {
    const NiftiGrid one = formats::ReadNiftiGrid(path, most_voxels / std::ssize(file.images));
    if (&path == &file.images.front()) {
      grid = one;
      continue;
    }
    RequireSameGrid(one, path, grid, file.images.front());
    grid.channels += one.channels;
  }
  if (!file.label.empty()) {
    RequireLabelGrid(formats::ReadNiftiGrid(file.label, most_voxels), grid, file);
  }
  return grid;
}

// Reads the image [C,z,y,x] from all files; its grid must be the one that the headers announced.
NiftiVolume ReadImage(const VolumeFile& file, const NiftiGrid& grid, int64_t most_voxels) {
  NiftiVolume image = {.grid = grid, .values = {}};
  image.grid.channels = 0;
  for (const std::string& path : file.images) {
    NiftiVolume read = formats::ReadNifti(path, most_voxels / std::ssize(file.images));
    RequireFinite(read, path);
    RequireSameGrid(read.grid, path, grid, file.images.front());
    image.grid.channels += read.grid.channels;
    if (image.values.empty()) {
      image.values = std::move(read.values);
    } else {
      image.values.insert(image.values.end(), read.values.begin(), read.values.end());
    }
  }
  return image;
}

// Checks the labels [z,y,x] of a file. Negative and `ignored` labels become kNoLabel.
std::vector<uint8_t> CheckedLabels(const NiftiVolume& label, const std::string& path,
                                   std::optional<int64_t> ignored, int64_t classes) {
  std::vector<uint8_t> labels;
  labels.reserve(label.values.size());
  for (size_t i = 0; i < label.values.size(); ++i) {
    const float value = label.values[i];
    if (value < 0 && value == std::floor(value)) {
      labels.push_back(kNoLabel);
      continue;
    }
    if (!(value >= 0 && value <= kNoLabel) || value != std::floor(value)) {
      throw UserError(
          fmt::format("{}: {} has label {}, and labels are whole numbers up to 254; is it a "
                      "file of labels?",
                      path, Place(label.grid, i), value));
    }
    if (ignored && value == static_cast<float>(*ignored)) {
      labels.push_back(kNoLabel);
      continue;
    }
    if (value == kNoLabel) {
      throw UserError(
          fmt::format("{}: {} has label 255, and labels are whole numbers up to 254; if its "
                      "voxels carry no loss, write in dataset.json: "
                      "\"labels\": {{…, \"ignore\": 255}}",
                      path, Place(label.grid, i)));
    }
    if (classes > 0 && value >= static_cast<float>(classes)) {
      throw UserError(fmt::format(
          "{}: {} has label {}, but the model distinguishes {} classes, 0 to {}; give it "
          "more classes, "
          "or correct the label",
          path, Place(label.grid, i), value, classes, classes - 1));
    }
    labels.push_back(static_cast<uint8_t>(value));
  }
  return labels;
}

std::vector<uint8_t> ReadLabels(const VolumeFile& file, const NiftiGrid& image,
                                const ReadVolumeOptions& options) {
  const NiftiVolume label = formats::ReadNifti(file.label, options.most_voxels);
  RequireLabelGrid(label.grid, image, file);
  return CheckedLabels(label, file.label, file.ignored, options.classes);
}

// The size to which the options have a volume resampled.
VolumeSize WantedSize(const VolumeFile& file, const VolumeSize& size,
                      const std::array<double, 3>& spacing, int64_t channels,
                      const ReadVolumeOptions& options) {
  std::array<double, 3> wanted = spacing;
  bool other = false;
  for (size_t i = 0; i < 3; ++i) {
    if (options.spacing[i] == 0) continue;
    wanted[i] = options.spacing[i];
    other = other || std::abs(spacing[i] - wanted[i]) > kTolerance * wanted[i];
  }
  if (!other) return size;
  if (!options.resample) {
    throw UserError(fmt::format(
        "{}: its voxels are {:.6g} mm apart along z, y and x, and {:.6g} are expected; resample it",
        file.images.front(), fmt::join(spacing, " × "), fmt::join(wanted, " × ")));
  }
  const VolumeSize result = SizeAt(size, spacing, wanted);
  if (result.voxels() > options.most_voxels / channels) {
    throw UserError(
        fmt::format("{}: with voxels of {:.6g} mm it has {} × {} × {} of them in {}, and "
                    "at most {} are "
                    "read; take a wider spacing, or crop it",
                    file.images.front(), fmt::join(wanted, " × "), result.depth, result.height,
                    result.width, Counted(channels, "channel"), options.most_voxels));
  }
  return result;
}

}  // namespace

VolumeShape ShapeOf(const VolumeFile& file, const ReadVolumeOptions& options) {
  const NiftiGrid grid = GridOf(file, options.most_voxels);
  const Orientation orientation = OrientationOf(grid.affine);
  const VolumeSize size = RasSize(grid, orientation);
  return {
      .channels = grid.channels,
      .size = WantedSize(file, size, RasSpacing(grid, orientation), grid.channels, options),
      .file_size = size,
  };
}

int64_t ReadingBytes(const VolumeFile& file, const VolumeShape& shape) {
  const int64_t of_file = shape.file_size.voxels(), of_volume = shape.size.voxels();
  const int64_t image = of_file * shape.channels * int64_t{sizeof(float)};
  const int64_t resampled = of_volume * shape.channels * int64_t{sizeof(float)};
  // While a file is read, its buffer grows to at most twice the values received so far
  // (ParseNifti). Then the values are reordered into a second buffer. With several files, the
  // buffer for all of them grows with each file: the old one, the new one and the file take at most
  // three times their bytes.
  int64_t most = (file.images.size() > 1 ? 3 : 2) * image;
  if (shape.size != shape.file_size) most = std::max(most, image + resampled);
  if (file.label.empty()) return most;
  // Labels are read while the images are in memory: as floats, and then reordered and resampled.
  const int64_t labels = std::max(2 * of_file * int64_t{sizeof(float)}, of_file + of_volume);
  return std::max(most, resampled + labels);
}

Volume ReadVolume(const VolumeFile& file, const ReadVolumeOptions& options, NiftiGrid* grid) {
  const NiftiGrid announced = GridOf(file, options.most_voxels);
  const Orientation orientation = OrientationOf(announced.affine);
  const VolumeSize size = RasSize(announced, orientation);
  const std::array<double, 3> spacing = RasSpacing(announced, orientation);

  Volume volume;
  volume.name = file.name;
  volume.size = WantedSize(file, size, spacing, announced.channels, options);
  const auto resampled = [](double before, int64_t from, int64_t to) {
    return before * static_cast<double>(from) / static_cast<double>(to);
  };
  volume.spacing = {resampled(spacing[0], size.depth, volume.size.depth),
                    resampled(spacing[1], size.height, volume.size.height),
                    resampled(spacing[2], size.width, volume.size.width)};
  NiftiVolume image = ReadImage(file, announced, options.most_voxels);
  volume.channels = image.grid.channels;
  volume.voxels = ToRas<float>(image.values, image.grid, orientation);
  image.values = std::vector<float>();  // frees the memory, which assigning {} does not
  if (volume.size != size) {
    volume.voxels = ResampledLinear(volume.voxels, size, volume.size, volume.channels);
  }
  if (!file.label.empty()) {
    NiftiGrid one = image.grid;
    one.channels = 1;
    volume.labels = ToRas<uint8_t>(ReadLabels(file, image.grid, options), one, orientation);
    volume.labels = ResampledLabels(volume.labels, size, volume.size);
  }
  if (grid != nullptr) *grid = image.grid;
  return volume;
}

void WriteLabels(const std::string& path, std::span<const uint8_t> labels, const NiftiGrid& grid) {
  NiftiGrid one = grid;
  one.channels = 1;
  const std::vector<uint8_t> values = FromRas<uint8_t>(labels, one, OrientationOf(grid.affine));
  formats::WriteNifti(path, one, std::span<const uint8_t>(values));
}

// WriteLabels holds the labels twice: in the file's order, and as the file's bytes.
int64_t WritingBytes(const VolumeSize& size) { return 2 * size.voxels(); }

}  // namespace plimsoll::data
