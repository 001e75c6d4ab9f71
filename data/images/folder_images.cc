// The images of JPEG and PNG files in folders of their classes, or listed with their labels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random_access_file.h"
#include "data/images/image_set.h"
#include "data/images/picture_scaling.h"
#include "formats/decode_raster.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kCropStream = 0x63726f70;  // the stream of random numbers for crops
constexpr int64_t kMostInVain = 1000;         // the most consecutive files that may be unreadable
constexpr size_t kNamedClasses = 5;           // the most classes that a summary names

// The largest file: a fixed part for metadata, and up to four channels of 16 bits for each pixel.
constexpr int64_t kMostBeside = 64 << 20, kMostBytesOfPixel = 8;

// Reads the file instead of mapping it: a failure of a network disk is then an error, not a signal.
formats::RasterPart DecodeFile(
    const std::string& path, int64_t most_pixels,
    FunctionRef<formats::RasterRequest(const formats::RasterHeader&)> choose) {
  const RandomAccessFile file(path, RandomAccessFile::Noted::kNo);
  if (file.bytes() > kMostBeside + kMostBytesOfPixel * most_pixels) {
    throw UserError(fmt::format("{}: its {} bytes are more than an image of {} pixels has", path,
                                file.bytes(), most_pixels));
  }
  static thread_local std::vector<uint8_t> bytes;
  bytes.resize(static_cast<size_t>(file.bytes()));
  file.Read(0, std::as_writable_bytes(std::span(bytes)));
  return formats::DecodeRasterPart(bytes, path, most_pixels, choose);
}

}  // namespace

FolderImages::FolderImages(ImageFolder folder, ImagePreparation seen, const FolderReading& reading)
    : folder_(std::move(folder)), seen_(std::move(seen)), reading_(reading) {}

FolderImages::Decoded FolderImages::Decode(const std::vector<ImageFile>& files, int64_t number,
                                           bool fast, ResizeOf resize_of) const {
  const int64_t count = std::ssize(files), most = std::min(count, kMostInVain);
  for (int64_t i = 0; i < most; ++i) {
    const ImageFile& file = files[static_cast<size_t>((number + i) % count)];
    try {
      Decoded image = {.part = {}, .resize = {}, .label = file.label};
      image.part =
          DecodeFile(file.path, reading_.most_pixels, [&](const formats::RasterHeader& picture) {
            image.resize = resize_of({picture.height, picture.width, seen_.canvas.channels});
            image.shrink = fast && picture.shrinks ? ShrinkFor(image.resize) : 1;
            return formats::RasterRequest{.box = SourceOf(image.resize, image.shrink),
                                          .shrink = static_cast<int>(image.shrink),
                                          .exact = !fast};
          });
      return image;
    } catch (const UserError& error) {
      if (!reading_.skip_unreadable) {
        throw UserError(
            fmt::format("data.folder: {} (data.unreadable: skip takes another image in its place)",
                        error.what()));
      }
      const std::lock_guard lock(mutex_);
      if (unread_.empty()) first_problem_ = error.what();
      unread_.insert(file.path);
    }
  }
  throw UserError(
      fmt::format("data.folder: {} and the {} after it cannot be read; is it "
                  "the right folder?",
                  files[static_cast<size_t>(number)].path, Counted(most - 1, "image")));
}

std::vector<uint8_t> FolderImages::Fitted(Decoded image) const {
  formats::Raster& raster = image.part.raster;
  const int64_t channels = seen_.canvas.channels;
  // A colour image for a grey model is resized as one channel; a grey image for a colour model is
  // resized before its channel is copied.
  if (raster.channels > channels) {
    const ImageSize size = {raster.height, raster.width, raster.channels};
    raster.pixels = WithChannels(raster.pixels, size, channels);
    raster.channels = channels;
  }
  std::vector<uint8_t> fitted =
      Resized(raster.pixels, raster.channels, image.part.box, image.resize, image.shrink);
  if (raster.channels == channels) return fitted;
  const ImageBox& kept = image.resize.kept;
  return WithChannels(fitted, {kept.height, kept.width, raster.channels}, channels);
}

int32_t FolderImages::DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                                std::span<float> to) const {
  if (to.empty() && !reading_.skip_unreadable) {
    return folder_.train[static_cast<size_t>(image)].label;
  }
  // The crop is drawn even if only the label is asked for: which rows are decoded decides whether
  // an image counts as readable.
  const auto resize_of = [&](const ImageSize& size) -> PictureResize {
    if (!reading_.crop) return seen_.ResizeOf(size);
    SampleRandom random(seed, sample, kCropStream);
    const ImageSize& canvas = seen_.canvas;
    return {.box = reading_.crop->Draw(size, random),
            .height = canvas.height,
            .width = canvas.width,
            .kept = {0, 0, canvas.height, canvas.width},
            .filter = seen_.filter};
  };
  Decoded read = Decode(folder_.train, image, reading_.fast, resize_of);
  const int32_t label = read.label;
  if (to.empty()) return label;
  seen_.DrawAugmented(Fitted(std::move(read)), reading_.augmentation, seed, sample, to);
  return label;
}

int32_t FolderImages::DrawHeldOut(int64_t image, std::span<float> to) const {
  if (to.empty() && !reading_.skip_unreadable) {
    return folder_.held_out[static_cast<size_t>(image)].label;
  }
  // Held-out images are always decoded exactly, so that evaluations can be compared.
  Decoded read = Decode(folder_.held_out, image, false,
                        [&](const ImageSize& size) { return seen_.ResizeOf(size); });
  const int32_t label = read.label;
  if (!to.empty()) seen_.Draw(Fitted(std::move(read)), to);
  return label;
}

void FolderImages::CheckLabelsBelow(int64_t bound) const {
  const int64_t count = std::ssize(folder_.classes);
  if (count <= bound) return;
  throw UserError(
      fmt::format("data.folder: has {} of classes, of which '{}' is number {}, but the "
                  "model distinguishes {}, 0 to {}; set model.classes: {}",
                  Counted(count, "folder"), folder_.classes[static_cast<size_t>(bound)], bound,
                  Counted(bound, "class"), bound - 1, count));
}

std::string FolderImages::WhyNot(const graph::Slot& slot) const {
  return fmt::format("the model's input '{}' is {}, and its images were said to be {}", slot.name,
                     slot.type.ToString(), seen_.canvas.ToString());
}

std::string FolderImages::Summary() const {
  const std::span<const std::string> names(folder_.classes);
  if (names.empty())
    return fmt::format("{} with a number each", Counted(folder_.train.size(), "JPEG or PNG file"));
  return fmt::format("{} {} {} ({}{})", Counted(folder_.train.size(), "JPEG or PNG file"),
                     labels() == nullptr ? "in" : "with any of", Counted(names.size(), "class"),
                     fmt::join(names.first(std::min(kNamedClasses, names.size())), ", "),
                     names.size() > kNamedClasses ? ", …" : "");
}

std::string FolderImages::ResizingText() const {
  const Resizing& to = seen_.resizing;
  const std::string filter =
      seen_.filter == Resampling::kBilinear
          ? ""
          : fmt::format(" ({})", ResamplingNames()[static_cast<size_t>(seen_.filter)]);
  if (to.shorter_side > 0) {
    return fmt::format("resized to a shorter side of {}{}, of which the middle is cut out",
                       to.shorter_side, filter);
  }
  const bool cut = to.height != seen_.canvas.height || to.width != seen_.canvas.width;
  return fmt::format("resized to {} × {}{}{}", to.height, to.width, filter,
                     cut ? ", of which the middle is cut out" : "");
}

std::string FolderImages::PreparationLines() const {
  const ImageSize& canvas = seen_.canvas;
  const std::string middle = ResizingText();
  std::string text = fmt::format("  seen as {}\n", canvas.ToString());
  if (reading_.crop) {
    text += fmt::format(
        "  cropped at random ({:.4g} to {:.4g} of the area, ratio {:.4g} to {:.4g}); held-out ones "
        "{}\n",
        reading_.crop->scale[0], reading_.crop->scale[1], reading_.crop->ratio[0],
        reading_.crop->ratio[1], middle);
  } else {
    text += fmt::format("  {}\n", middle);
  }
  if (reading_.fast) text += "  decoded fast: pixels near those of the files\n";
  text += reading_.augmentation.ChangesText();
  if (folder_.passed_over > 0) {
    text += fmt::format("  {} ignored\n", Counted(folder_.passed_over, "other file"));
  }
  return text;
}

std::string FolderImages::Unread() const {
  const std::lock_guard lock(mutex_);
  if (unread_.empty()) return "";
  return fmt::format("{} could not be read, and others took the place; the first: {}",
                     Counted(unread_.size(), "image"), first_problem_);
}

}  // namespace plimsoll::data
