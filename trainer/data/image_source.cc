// Labelled images as a source of data: fills the inputs "images" f32[B,H,W,C], normalised, and
// "labels" i32[B] of models that classify, and where images are mixed "labels_b" i32[B] and
// "label_weight" f32[B]. Called "images" in run files.
//
// An epoch is a permutation of the N images for training, drawn anew for each: sample n is image
// number n mod N of epoch n / N. The images for tests are held out, in their order. RandAugment and
// mixing take scratch memory, which each thread that fills allocates once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "trainer/data/class_names.h"
#include "trainer/data/image_augmentation.h"
#include "trainer/data/image_files.h"
#include "trainer/data/image_normalisation.h"
#include "trainer/data/image_preparation.h"
#include "trainer/data/source.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kAugmentationStream = 2, kMixStream = 3, kPartnerStream = 4;

constexpr int32_t kNoLabel = -1;  // of rows that carry no loss

constexpr int64_t kMostPixels = 10000;  // of a canvas' side
constexpr double kLeastStd = 1e-6;      // what float32 can divide by
constexpr double kMostAlpha = 4;        // beyond it Jöhnk's method takes many tries

// "28 × 28 × 1"
std::string Text(const ImageSize& size) {
  return fmt::format("{} × {} × {}", size.height, size.width, size.channels);
}

// What training and evaluations have in common.
struct Images {
  std::string folder;
  ImageFiles files;
  ImagePreparation seen;
};

// The inputs among the slots; a model may do without one of them.
struct ImageSlots {
  std::span<float> images;                   // [B,H,W,C]
  std::span<int32_t> labels, second_labels;  // [B]
  std::span<float> weights;                  // [B]: of the first labels
  int64_t rows = 0;
};

[[noreturn]] void FailOnSize(const Images& images, const graph::Slot& slot) {
  const ImageSize& canvas = images.seen.canvas;
  const graph::Shape& shape = slot.type.shape;
  std::string why = fmt::format("the model's input '{}' is {}, and the images of {} are {}",
                                slot.name, slot.type.ToString(), images.folder, Text(canvas));
  if (shape.rank() != 4 || shape.dim(3) != canvas.channels) {
    throw UserError(why + fmt::format(" (height, width, channels); choose a model of images with "
                                      "{} channel{}, or other images by data.folder",
                                      canvas.channels, canvas.channels == 1 ? "" : "s"));
  }
  const ImageSize& own = images.files.train.size;
  const bool can_pad =
      shape.dim(1) == shape.dim(2) && shape.dim(1) >= own.height && shape.dim(2) >= own.width;
  if (canvas != own) why += fmt::format(" with data.pad_to ({} without)", Text(own));
  throw UserError(why + (can_pad ? fmt::format("; data.pad_to: {} makes them fit", shape.dim(1))
                                 : "; give the model their height and width"));
}

bool IsColumn(const graph::Slot& slot, graph::DType dtype) {
  return slot.type.dtype == dtype && slot.type.shape.rank() == 1;
}

ImageSlots SlotsOf(const Images& images, std::span<const graph::Slot> slots) {
  ImageSlots found;
  for (const graph::Slot& slot : slots) {
    const graph::Shape& shape = slot.type.shape;
    if (slot.name == "images" && slot.type.dtype == graph::DType::kFloat32) {
      const ImageSize& canvas = images.seen.canvas;
      if (shape.rank() != 4 || shape.dim(1) != canvas.height || shape.dim(2) != canvas.width ||
          shape.dim(3) != canvas.channels) {
        FailOnSize(images, slot);
      }
      found.images = slot.values<float>();
    } else if (slot.name == "labels" && IsColumn(slot, graph::DType::kInt32)) {
      found.labels = slot.values<int32_t>();
    } else if (slot.name == "labels_b" && IsColumn(slot, graph::DType::kInt32)) {
      found.second_labels = slot.values<int32_t>();
    } else if (slot.name == "label_weight" && IsColumn(slot, graph::DType::kFloat32)) {
      found.weights = slot.values<float>();
    } else {
      throw UserError(fmt::format(
          "images have nothing for the model's input '{}', {}; they fill images f32[B,H,W,C], "
          "labels i32[B], labels_b i32[B] and label_weight f32[B]",
          slot.name, slot.type.ToString()));
    }
    if (found.rows != 0 && found.rows != shape.dim(0)) {
      throw InternalError("inputs of one batch with different numbers of rows");
    }
    found.rows = shape.dim(0);
  }
  return found;
}

std::span<float> RowOf(const Images& images, const ImageSlots& slots, int64_t row) {
  const auto values = static_cast<size_t>(images.seen.canvas.elements());
  return slots.images.subspan(static_cast<size_t>(row) * values, values);
}

// Fills the labels of row `row`: `share` is the first one's weight.
void FillLabels(const ImageSlots& slots, int64_t row, int32_t first, int32_t second, double share) {
  const auto at = static_cast<size_t>(row);
  if (!slots.labels.empty()) slots.labels[at] = first;
  if (!slots.second_labels.empty()) slots.second_labels[at] = second;
  if (!slots.weights.empty()) slots.weights[at] = static_cast<float>(share);
}

// UserError on a label from `bound` on.
void CheckLabelsBelow(const LabelledImages& images, int64_t bound) {
  const auto wrong =
      std::ranges::find_if(images.labels, [&](uint8_t label) { return label >= bound; });
  if (wrong == images.labels.end()) return;
  const int64_t number = wrong - images.labels.begin();
  const auto behind =
      std::ranges::upper_bound(images.files, number, {}, &LabelledImages::File::first);
  const LabelledImages::File& file = *std::prev(behind);
  throw UserError(
      fmt::format("{}: image {} has label {}, but the model tells apart {} classes, 0 "
                  "to {}; raise model.classes, or name other images",
                  file.path, number - file.first, *wrong, bound, bound - 1));
}

class HeldOutImages final : public Source {
 public:
  // The first `count` images for tests.
  HeldOutImages(std::shared_ptr<const Images> images, int64_t count)
      : images_(std::move(images)), count_(count) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const ImageSlots found = SlotsOf(*images_, slots);
    for (int64_t row = 0; row < found.rows; ++row) {
      const bool is_there = first + row < count_;
      const LabelledImages& test = images_->files.test;
      const int32_t label = is_there ? test.labels[static_cast<size_t>(first + row)] : kNoLabel;
      FillLabels(found, row, label, label, 1);
      if (found.images.empty()) continue;
      const std::span<float> to = RowOf(*images_, found, row);
      if (!is_there) {
        std::ranges::fill(to, 0.0f);
      } else {
        images_->seen.Draw(test.image(first + row), to);
      }
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t first,
                       int64_t count) const override {
    return std::clamp<int64_t>(count_ - first, 0, count);
  }
  std::optional<int64_t> samples() const override { return count_; }
  bool pads() const override { return true; }

 private:
  std::shared_ptr<const Images> images_;
  int64_t count_;
};

class ImageSource final : public Source {
 public:
  ImageSource(Images images, const Augmentation& augmentation, const ImageMixing& mixing,
              std::vector<std::string> class_names, uint64_t seed)
      : images_(std::make_shared<const Images>(std::move(images))),
        augmentation_(augmentation),
        mixing_(mixing),
        class_names_(std::move(class_names)),
        seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const ImageSlots found = SlotsOf(*images_, slots);
    if (mixing_.any() && !found.labels.empty() && found.second_labels.empty()) {
      throw UserError(
          "data.mixup and data.cutmix give images two labels, but the model reads one; leave them "
          "out, or set model.mixed_labels where the family has it");
    }
    for (int64_t row = 0; row < found.rows; ++row) FillRow(first + row, found, row);
  }
  void CheckBound(std::string_view input, int64_t bound) const override {
    if (input != "labels") return;
    CheckLabelsBelow(images_->files.train, bound);
    CheckLabelsBelow(images_->files.test, bound);
  }
  std::vector<int64_t> sizes() const override { return {images_->files.train.count()}; }
  std::optional<int64_t> epoch_samples() const override { return images_->files.train.count(); }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    const int64_t all = images_->files.test.count();
    return std::make_unique<HeldOutImages>(images_, most > 0 ? std::min(most, all) : all);
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  const ImagePreparation* image_preparation() const override { return &images_->seen; }
  std::string Describe(const Reading& reading) const override {
    const LabelledImages& train = images_->files.train;
    std::string text = fmt::format(
        "data: {} images of {} in {} classes to train on, {} per step, {:.1f} epochs{}\n",
        train.count(), Text(train.size), images_->files.classes, reading.samples_per_step,
        static_cast<double>(reading.samples) / static_cast<double>(train.count()),
        reading.held_out_targets ? fmt::format(", {} held-out images evaluated every {} steps",
                                               *reading.held_out_targets, reading.eval_every)
                                 : "");
    if (images_->seen.canvas != train.size) {
      text += fmt::format("  padded to {}\n", Text(images_->seen.canvas));
    }
    if (augmentation_.crop_padding > 0) {
      text += fmt::format("  cropped at random out of {} pixels of padding\n",
                          augmentation_.crop_padding);
    }
    if (augmentation_.flip) text += "  flipped with probability 1/2\n";
    if (augmentation_.operations > 0) {
      text += fmt::format("  changed by {} operations of strength {} of {}\n",
                          augmentation_.operations, augmentation_.strength, kStrengths - 1);
    }
    if (augmentation_.erase_probability > 0) {
      text +=
          fmt::format("  partly erased with probability {:.4g}\n", augmentation_.erase_probability);
    }
    if (mixing_.mixup > 0) text += fmt::format("  mixed (mixup {:.4g})\n", mixing_.mixup);
    if (mixing_.cutmix > 0) text += fmt::format("  mixed (CutMix {:.4g})\n", mixing_.cutmix);
    return text + fmt::format("  mean {:.4g}, std {:.4g}\n",
                              fmt::join(images_->seen.statistics.mean, " "),
                              fmt::join(images_->seen.statistics.std, " "));
  }

 private:
  // The number of a sample's image among those for training.
  int64_t ImageOf(int64_t sample) const {
    const int64_t count = images_->files.train.count();
    const auto epoch = static_cast<uint64_t>(sample / count);
    const Permutation order(static_cast<uint64_t>(count), Hash(seed_, kOrderStream, epoch));
    return static_cast<int64_t>(order(static_cast<uint64_t>(sample % count)));
  }

  void FillRow(int64_t sample, const ImageSlots& slots, int64_t row) const {
    const LabelledImages& train = images_->files.train;
    const auto label = [&](int64_t image) { return train.labels[static_cast<size_t>(image)]; };
    const int64_t own = ImageOf(sample);
    const std::span<float> to =
        slots.images.empty() ? std::span<float>() : RowOf(*images_, slots, row);
    const uint64_t seed = Hash(seed_, kAugmentationStream);
    if (!to.empty()) Draw(own, seed, sample, to);
    if (!mixing_.any()) return FillLabels(slots, row, label(own), label(own), 1);
    // The partner is any image, with an augmentation of its own.
    SampleRandom random(seed_, sample, kMixStream);
    const int64_t partner = random.Below(train.count());
    const ImageMix mix = mixing_.Draw(images_->seen.canvas, random);
    if (!to.empty()) {
      static thread_local std::vector<float> other;
      other.resize(to.size());
      Draw(partner, Hash(seed, kPartnerStream), sample, other);
      MixImages(mix, images_->seen.canvas, to, other);
    }
    FillLabels(slots, row, label(own), label(partner), mix.own_share);
  }

  // Writes an image as training sees it.
  void Draw(int64_t image, uint64_t seed, int64_t sample, std::span<float> to) const {
    const LabelledImages& train = images_->files.train;
    const ImageSize& canvas = images_->seen.canvas;
    const Placement placement = augmentation_.Draw(images_->seen.centred, seed, sample);
    if (augmentation_.operations == 0) {
      DrawImage(train.image(image), train.size, placement, images_->seen.normalised, canvas, to);
    } else {
      static thread_local std::vector<uint8_t> bytes, scratch;
      bytes.resize(to.size());
      scratch.resize(to.size());
      PlaceImage(train.image(image), train.size, placement, canvas, bytes);
      augmentation_.Change(seed, sample, canvas, bytes, scratch);
      DrawImage(bytes, canvas, {}, images_->seen.normalised, canvas, to);
    }
    if (augmentation_.erase_probability == 0) return;
    const auto box = augmentation_.DrawErasing(seed, sample, canvas);
    if (box) EraseBox(*box, canvas, to);
  }

  std::shared_ptr<const Images> images_;
  Augmentation augmentation_;
  ImageMixing mixing_;
  std::vector<std::string> class_names_;
  uint64_t seed_;
};

ImageFiles FilesFrom(const Settings& settings) {
  try {
    return ReadImageFiles(settings.Text("folder"));
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
}

ImageSize CanvasFrom(const Settings& settings, const ImageSize& image) {
  const int64_t pad_to = settings.Int("pad_to");
  if (pad_to == 0) return image;
  if (pad_to < image.height || pad_to < image.width) {
    throw SettingError("pad_to",
                       fmt::format("{} is less than the images have, {}; give {} or "
                                   "more, or 0 to leave them as they are",
                                   pad_to, Text(image), std::max(image.height, image.width)));
  }
  return {pad_to, pad_to, image.channels};
}

// The setting's numbers for each channel, or else those that were measured.
std::vector<double> ByChannel(const Settings& settings, const std::string& name, int64_t channels,
                              const std::vector<double>& measured) {
  if (!settings.Has(name)) return measured;
  const std::vector<double>& given = settings.Floats(name);
  if (given.size() == 1) return std::vector<double>(static_cast<size_t>(channels), given[0]);
  if (std::ssize(given) == channels) return given;
  throw SettingError(name, fmt::format("{} numbers for images with {} channel{}; give one for "
                                       "each channel, or one for all",
                                       given.size(), channels, channels == 1 ? "" : "s"));
}

ChannelStatistics StatisticsFrom(const Settings& settings, const LabelledImages& train) {
  const bool measures = !settings.Has("mean") || !settings.Has("std");
  const ChannelStatistics measured = measures ? StatisticsOf(train) : ChannelStatistics{};
  ChannelStatistics statistics = {
      .mean = ByChannel(settings, "mean", train.size.channels, measured.mean),
      .std = ByChannel(settings, "std", train.size.channels, measured.std)};
  if (std::ranges::any_of(statistics.std, [](double std) { return std == 0; })) {
    throw SettingError("std",
                       "all pixels of a channel are equal in the images for training, so "
                       "that it has no standard deviation; give a number, such as 1");
  }
  return statistics;
}

Augmentation AugmentationFrom(const Settings& settings, const ImageSize& image) {
  const Augmentation augmentation = {.crop_padding = settings.Int("crop_padding"),
                                     .flip = settings.Bool("flip"),
                                     .operations = settings.Int("randaugment"),
                                     .strength = settings.Int("randaugment_strength"),
                                     .erase_probability = settings.Float("erasing")};
  if (augmentation.crop_padding >= std::min(image.height, image.width)) {
    throw SettingError(
        "crop_padding",
        fmt::format("{} could cut off all of an image of {}; give less than {}",
                    augmentation.crop_padding, Text(image), std::min(image.height, image.width)));
  }
  return augmentation;
}

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  std::vector<std::string> class_names = ClassNamesFrom(settings, model.classes);
  ImageFiles files = FilesFrom(settings);
  const ImageSize size = files.train.size;
  const ImageSize canvas = CanvasFrom(settings, size);
  ImagePreparation seen(size, canvas, StatisticsFrom(settings, files.train));
  return std::make_unique<ImageSource>(
      Images{settings.Text("folder"), std::move(files), std::move(seen)},
      AugmentationFrom(settings, size),
      ImageMixing{.mixup = settings.Float("mixup"), .cutmix = settings.Float("cutmix")},
      std::move(class_names), seed);
}

const SourceRegistration kSource({
    .name = "images",
    .settings =
        {{.name = "folder",
          .type = Setting::Type::kString,
          .doc = "Where the images are: the four files of MNIST, Fashion-MNIST or another data set "
                 "of that form, plain or with `.gz`, or CIFAR-10's binary version (docs/data.md).",
          .required = "name the folder with the images' files"},
         ClassNamesSetting(),
         {.name = "pad_to",
          .doc = "Height and width that images are padded to with zeros, themselves in the middle; "
                 "0: they stay as they are.",
          .default_value = int64_t{0},
          .min = 0,
          .max = kMostPixels},
         {.name = "crop_padding",
          .doc = "For training, images get so many zeros on each side, and a random part of their "
                 "size is cut out of that; 0: none.",
          .default_value = int64_t{0},
          .min = 0,
          .max = kMostPixels},
         {.name = "flip",
          .type = Setting::Type::kBool,
          .doc = "For training, an image is flipped left to right with probability ½.",
          .default_value = false},
         WorkersSetting(),
         {.name = "randaugment",
          .doc =
              "For training, so many operations of RandAugment change an image, drawn out of 14.",
          .default_value = int64_t{0},
          .min = 0,
          .max = 100},
         {.name = "randaugment_strength",
          .doc = "How strong they are, of 30.",
          .default_value = int64_t{9},
          .min = 0,
          .max = static_cast<double>(kStrengths - 1)},
         {.name = "erasing",
          .type = Setting::Type::kFloat,
          .doc = "For training, the probability with which a box of an image, 2 % to 33 % of it, "
                 "is erased.",
          .default_value = 0.0,
          .min = 0,
          .max = 1},
         {.name = "mixup",
          .type = Setting::Type::kFloat,
          .doc = "For training, an image is the weighted mean of two, and so is its loss, with a "
                 "weight of the distribution Beta(`mixup`, `mixup`); 0: it is one image "
                 "(docs/recipes.md).",
          .default_value = 0.0,
          .min = 0,
          .max = kMostAlpha},
         {.name = "cutmix",
          .type = Setting::Type::kFloat,
          .doc =
              "For training, a box of another image takes the place of a part, of the "
              "distribution Beta(`cutmix`, `cutmix`), and the loss is mixed alike; with `mixup`, "
              "each in half of the images; 0: never.",
          .default_value = 0.0,
          .min = 0,
          .max = kMostAlpha},
         {.name = "mean",
          .type = Setting::Type::kFloatList,
          .doc =
              "What is subtracted from pixels, which lie between 0 and 1, before they are divided "
              "by `std`: a number for each channel, or one for all.",
          .derived = "that of the images for training",
          .min = 0,
          .max = 1},
         {.name = "std",
          .type = Setting::Type::kFloatList,
          .doc = "What pixels are divided by then: a number for each channel, or one for all.",
          .derived = "the standard deviation of the images for training",
          .min = kLeastStd}},
    .make = &Make,
    .fills = {{"images", {4}}, {"labels", {1}}},
    .mixes = [](const Settings& settings) -> std::string {
      if (settings.Float("mixup") > 0) return "mixup";
      return settings.Float("cutmix") > 0 ? "cutmix" : "";
    },
    .holds_out = [](const Settings&) { return true; },
});

}  // namespace
}  // namespace plimsoll::data
