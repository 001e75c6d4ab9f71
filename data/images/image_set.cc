#include "data/images/image_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::data {
namespace {

// Throws a UserError if a label is `bound` or more.
void CheckBelow(const LabelledImages& images, int64_t bound) {
  const auto wrong =
      std::ranges::find_if(images.labels, [&](uint8_t label) { return label >= bound; });
  if (wrong == images.labels.end()) return;
  const int64_t number = wrong - images.labels.begin();
  const auto behind =
      std::ranges::upper_bound(images.files, number, {}, &LabelledImages::File::first);
  const LabelledImages::File& file = *std::prev(behind);
  throw UserError(
      fmt::format("{}: image {} has label {}, but the model distinguishes {}, 0 "
                  "to {}; raise model.classes, or name other images",
                  file.path, number - file.first, *wrong, Counted(bound, "class"), bound - 1));
}

}  // namespace

StoredImages::StoredImages(std::string folder, ImageFiles files, ImagePreparation seen,
                           const Augmentation& augmentation)
    : folder_(std::move(folder)),
      files_(std::move(files)),
      seen_(std::move(seen)),
      augmentation_(augmentation) {}

int32_t StoredImages::DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                                std::span<float> to) const {
  const LabelledImages& train = files_.train;
  if (!to.empty()) seen_.DrawAugmented(train.image(image), augmentation_, seed, sample, to);
  return train.labels[static_cast<size_t>(image)];
}

int32_t StoredImages::DrawHeldOut(int64_t image, std::span<float> to) const {
  if (!to.empty()) seen_.Draw(files_.test.image(image), to);
  return files_.test.labels[static_cast<size_t>(image)];
}

void StoredImages::CheckLabelsBelow(int64_t bound) const {
  CheckBelow(files_.train, bound);
  CheckBelow(files_.test, bound);
}

std::string StoredImages::WhyNot(const graph::Slot& slot) const {
  const ImageSize& canvas = seen_.canvas;
  const graph::Shape& shape = slot.type.shape;
  std::string why = fmt::format("the model's input '{}' is {}, and the images of {} are {}",
                                slot.name, slot.type.ToString(), folder_, canvas.ToString());
  if (shape.rank() != 4 || shape.dim(3) != canvas.channels) {
    return why + fmt::format(
                     " (height, width, channels); choose a model of images with "
                     "{}, or other images by data.folder",
                     Counted(canvas.channels, "channel"));
  }
  const ImageSize& own = files_.train.size;
  const bool can_pad =
      shape.dim(1) == shape.dim(2) && shape.dim(1) >= own.height && shape.dim(2) >= own.width;
  if (canvas != own) why += fmt::format(" with data.pad_to ({} without)", own.ToString());
  return why + (can_pad ? fmt::format("; data.pad_to: {} makes them fit", shape.dim(1))
                        : "; give the model their height and width");
}

std::string StoredImages::Summary() const {
  return fmt::format("{} of {} in {}", Counted(files_.train.count(), "image"),
                     files_.train.size.ToString(), Counted(files_.classes, "class"));
}

std::string StoredImages::PreparationLines() const {
  std::string text;
  if (seen_.canvas != files_.train.size) {
    text += fmt::format("  padded to {}\n", seen_.canvas.ToString());
  }
  if (augmentation_.crop_padding > 0) {
    text += fmt::format("  cropped at random out of {} of padding\n",
                        Counted(augmentation_.crop_padding, "pixel"));
  }
  return text + augmentation_.ChangesText();
}

}  // namespace plimsoll::data
