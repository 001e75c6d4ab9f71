#include "data/images/image_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "data/images/idx_file.h"

namespace plimsoll::data {
namespace {

constexpr const char* kIdxTrain[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
constexpr const char* kIdxTest[] = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
constexpr const char* kCifarTrain[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin"};
constexpr const char* kCifarTest[] = {"test_batch.bin"};
constexpr const char* kCifarFolder = "cifar-10-batches-bin";

using Names = std::span<const char* const>;

// Finds the file of that name, uncompressed or else with .gz.
std::optional<std::string> FindIdx(const std::string& folder, const char* name) {
  for (const char* ending : {"", ".gz"}) {
    std::string path = folder + "/" + name + ending;
    if (Exists(path)) return path;
  }
  return std::nullopt;
}

bool HasIdx(const std::string& folder) {
  const auto there = [&](const char* name) { return FindIdx(folder, name).has_value(); };
  return std::ranges::any_of(kIdxTrain, there) || std::ranges::any_of(kIdxTest, there);
}

bool HasCifar(const std::string& folder) {
  const auto there = [&](const char* name) { return Exists(folder + "/" + name); };
  return std::ranges::any_of(kCifarTrain, there) || std::ranges::any_of(kCifarTest, there);
}

[[noreturn]] void FailMissing(const std::string& folder, const char* name) {
  throw UserError(
      fmt::format("{}/{}: this file of the data set is missing; copy it there", folder, name));
}

void CheckLabels(std::span<const uint8_t> labels, const std::string& name) {
  const auto wrong =
      std::ranges::find_if(labels, [](uint8_t label) { return label >= kStoredClasses; });
  if (wrong == labels.end()) return;
  throw UserError(fmt::format(
      "{}: label {} of image {} is none of the {} classes 0 to {}; copy the file again, or take "
      "one of a data set with {} classes",
      name, *wrong, wrong - labels.begin(), kStoredClasses, kStoredClasses - 1, kStoredClasses));
}

// `names`: the file names of the images and of the labels.
LabelledImages ReadIdx(const std::string& folder, Names names) {
  const auto read = [&](const char* name, int dimensions) {
    const std::optional<std::string> path = FindIdx(folder, name);
    if (!path) FailMissing(folder, name);
    return std::pair(*path, ParseIdx(MappedFile(*path).bytes(), *path, dimensions));
  };
  auto [images_path, images] = read(names[0], 3);
  auto [labels_path, labels] = read(names[1], 1);
  if (images.shape[0] != labels.shape[0]) {
    throw UserError(
        fmt::format("{}: has {} for the {} of {}; take both from one "
                    "data set",
                    labels_path, Counted(labels.shape[0], "label"),
                    Counted(images.shape[0], "image"), images_path));
  }
  CheckLabels(labels.values, labels_path);
  return {.size = {images.shape[1], images.shape[2], 1},
          .files = {{labels_path}},
          .pixels = std::move(images.values),
          .labels = std::move(labels.values)};
}

ImageFiles ReadIdxFolder(const std::string& folder) {
  ImageFiles files{kStoredClasses, ReadIdx(folder, kIdxTrain), ReadIdx(folder, kIdxTest)};
  if (files.train.size != files.test.size) {
    throw UserError(fmt::format(
        "{}: its images for training have {} × {} pixels and those for tests {} × {}; take all "
        "files from one data set",
        folder, files.train.size.height, files.train.size.width, files.test.size.height,
        files.test.size.width));
  }
  return files;
}

// Appends the records of a file: a byte for the label, then a plane [H,W] for each channel.
void AppendCifar(const std::string& path, LabelledImages& images) {
  const MappedFile file(path);
  const std::span<const uint8_t> bytes = file.bytes();
  const auto plane = static_cast<size_t>(kCifarSize.height * kCifarSize.width);
  const auto channels = static_cast<size_t>(kCifarSize.channels);
  const size_t record = 1 + channels * plane;
  if (bytes.empty() || bytes.size() % record != 0) {
    throw UserError(fmt::format(
        "{}: truncated, or no file of CIFAR-10's binary version: its {} bytes are no whole number "
        "of records of {} bytes; copy the file again",
        path, bytes.size(), record));
  }
  const size_t count = bytes.size() / record, before = images.labels.size();
  images.files.push_back({path, static_cast<int64_t>(before)});
  for (size_t i = 0; i < count; ++i) images.labels.push_back(bytes[i * record]);
  CheckLabels(std::span(images.labels).subspan(before), path);
  images.pixels.resize((before + count) * channels * plane);
  uint8_t* out = images.pixels.data() + before * channels * plane;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const planes = bytes.data() + i * record + 1;
    for (size_t pixel = 0; pixel < plane; ++pixel) {
      for (size_t c = 0; c < channels; ++c) *out++ = planes[c * plane + pixel];
    }
  }
}

LabelledImages ReadCifar(const std::string& folder, Names names) {
  LabelledImages images{.size = kCifarSize, .files = {}, .pixels = {}, .labels = {}};
  for (const char* name : names) {
    const std::string path = folder + "/" + name;
    if (!Exists(path)) FailMissing(folder, name);
    AppendCifar(path, images);
  }
  return images;
}

}  // namespace

std::string ImageSize::ToString() const {
  return fmt::format("{} × {} × {}", height, width, channels);
}

bool HasImageFiles(const std::string& folder) {
  return HasIdx(folder) || HasCifar(folder) || HasCifar(folder + "/" + kCifarFolder);
}

LabelledImages ReadCifarFile(const std::string& path) {
  LabelledImages images{.size = kCifarSize, .files = {}, .pixels = {}, .labels = {}};
  AppendCifar(path, images);
  return images;
}

ImageFiles ReadImageFiles(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw UserError(fmt::format(
        "{}: there is no such folder; name one that holds the files of a data set", folder));
  }
  const std::string below = folder + "/" + kCifarFolder;
  const bool idx = HasIdx(folder), cifar = HasCifar(folder), cifar_below = HasCifar(below);
  if (idx && (cifar || cifar_below)) {
    throw UserError(fmt::format(
        "{}: holds files of MNIST's form and of CIFAR-10's; name a folder with one of them",
        folder));
  }
  if (idx) return ReadIdxFolder(folder);
  if (cifar || cifar_below) {
    const std::string& at = cifar ? folder : below;
    return {kStoredClasses, ReadCifar(at, kCifarTrain), ReadCifar(at, kCifarTest)};
  }
  throw UserError(fmt::format(
      "{}: holds no images: neither {}, {} (each plain or with .gz) nor CIFAR-10's binary version "
      "({}, {}, or the folder {}) is there, nor folders of JPEG or PNG files by class "
      "(train/CLASS, "
      "val/CLASS or CLASS alone); Debian's package dataset-fashion-mnist installs images "
      "into /usr/share/datasets/fashion-mnist",
      folder, fmt::join(kIdxTrain, ", "), fmt::join(kIdxTest, ", "), fmt::join(kCifarTrain, ", "),
      fmt::join(kCifarTest, ", "), kCifarFolder));
}

}  // namespace plimsoll::data
