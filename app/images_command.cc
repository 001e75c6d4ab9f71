// The command `plimsoll data images`: writes the images of a data set as JPEG or PNG files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>
#include <system_error>

#include "app/data_commands.h"
#include "base/amounts.h"
#include "base/error.h"
#include "base/output_file.h"
#include "data/images/image_files.h"
#include "formats/jpeg.h"
#include "formats/png.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

// The names of Fashion-MNIST's classes, without slashes: a slash would mean another folder.
const std::vector<std::string> kFashion = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                                           "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

std::vector<std::string> ClassesFor(const WriteImagesOptions& options, int64_t count) {
  std::vector<std::string> classes = options.classes;
  if (classes.empty() && options.from == WriteImagesOptions().from) classes = kFashion;
  if (classes.empty()) {
    for (int64_t i = 0; i < count; ++i) classes.push_back(std::to_string(i));
  }
  if (std::ssize(classes) != count) {
    throw UserError(fmt::format("--classes: {} for {}; give one for each",
                                Counted(classes.size(), "name"), Counted(count, "class")));
  }
  for (const std::string& name : classes) {
    if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos) {
      throw UserError(fmt::format("--classes: '{}' cannot be a folder's name; give another", name));
    }
  }
  if (std::set<std::string>(classes.begin(), classes.end()).size() != classes.size()) {
    throw UserError("--classes: two classes have one name; give each its own");
  }
  return classes;
}

void MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw UserError(fmt::format("{}: the folder cannot be made: {}; choose another one",
                              folder.string(), error.message()));
}

std::vector<uint8_t> Encoded(const WriteImagesOptions& options, const ImageSize& size,
                             std::span<const uint8_t> pixels) {
  return options.format == "png"
             ? formats::EncodePng(size.width, size.height, pixels)
             : formats::EncodeJpeg(size.height, size.width, pixels, options.quality);
}

// Writes the first `most` images of each class (0: all). Returns the number of images written.
int64_t WriteImagesOf(const LabelledImages& images, int64_t most, const fs::path& folder,
                      const std::vector<std::string>& classes, const WriteImagesOptions& options) {
  for (const std::string& name : classes) MakeFolder(folder / name);
  std::vector<int64_t> written(classes.size());
  for (int64_t i = 0; i < images.count(); ++i) {
    const size_t label = images.labels[static_cast<size_t>(i)];
    if (most > 0 && written[label] == most) continue;
    ++written[label];
    const fs::path path = folder / classes[label] /
                          fmt::format("{:05}.{}", i, options.format == "png" ? "png" : "jpg");
    const std::vector<uint8_t> bytes = Encoded(options, images.size, images.image(i));
    OutputFile file(path.string());
    file.Write(std::as_bytes(std::span(bytes)));
    file.Commit(OutputFile::Sync::kNo);
  }
  return std::accumulate(written.begin(), written.end(), int64_t{0});
}

}  // namespace

WrittenImages WriteImages(const WriteImagesOptions& options) {
  if (options.format != "png" && options.format != "jpeg") {
    throw UserError(fmt::format("--format {}: give png or jpeg", options.format));
  }
  if (options.quality < 1 || options.quality > 100 || options.train < 0 || options.test < 0) {
    throw UserError("--quality: give 1 to 100; --train and --test: 0 or more");
  }
  const fs::path folder = options.folder;
  const ImageFiles files = ReadImageFiles(options.from);
  const std::vector<std::string> classes = ClassesFor(options, files.classes);
  for (const char* part : {"train", "test"}) {
    std::error_code error;
    if (!fs::exists(folder / part, error)) continue;
    throw UserError(fmt::format("{}: is there already; choose another folder, or remove it",
                                (folder / part).string()));
  }
  return {.train = WriteImagesOf(files.train, options.train, folder / "train", classes, options),
          .test = WriteImagesOf(files.test, options.test, folder / "test", classes, options)};
}

}  // namespace plimsoll::data
