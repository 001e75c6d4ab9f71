// The settings of the source "images", and how it opens the images that they name.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "data/class_names.h"
#include "data/images/image_files.h"
#include "data/images/image_folder.h"
#include "data/images/image_set.h"
#include "formats/raster.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostPixels = 10000;  // longest side of a canvas
constexpr double kLeastStd = 1e-6;      // the smallest std that float32 can divide by
constexpr double kMostAlpha = 4;        // above it Jöhnk's method takes many tries

// The default resizing: to 256 for a canvas of 224, in proportion for others.
constexpr int64_t kResized = 256, kCutOut = 224;

// ImageNet's statistics, as used by torchvision's models. Grey images get the mean over the
// channels.
const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406};
const std::vector<double> kImageNetStd = {0.229, 0.224, 0.225};
const std::vector<double> kGreyMean = {0.449}, kGreyStd = {0.226};

// Returns what `read` returns; its UserErrors become errors of the folder's setting.
template <typename Read>
auto OfFolder(const Read& read) {
  try {
    return read();
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
                                   pad_to, image.ToString(), std::max(image.height, image.width)));
  }
  return {pad_to, pad_to, image.channels};
}

// The setting's numbers for each channel, or else the measured ones.
std::vector<double> ByChannel(const Settings& settings, const std::string& name, int64_t channels,
                              const std::vector<double>& measured) {
  if (!settings.Has(name)) return measured;
  const std::vector<double>& given = settings.Floats(name);
  if (given.size() == 1) return std::vector<double>(static_cast<size_t>(channels), given[0]);
  if (std::ssize(given) == channels) return given;
  throw SettingError(name,
                     fmt::format("{} for images with {}; give one for "
                                 "each channel, or one for all",
                                 Counted(given.size(), "number"), Counted(channels, "channel")));
}

double RescaleFrom(const Settings& settings) {
  return settings.Has("rescale") ? settings.Float("rescale") : kRescale;
}

Resampling ResamplingFrom(const Settings& settings) {
  if (!settings.Has("interpolation")) return Resampling::kBilinear;
  const auto names = ResamplingNames();
  return static_cast<Resampling>(std::ranges::find(names, settings.Text("interpolation")) -
                                 names.begin());
}

// Throws a SettingError if no pixel can reach the mean.
void CheckMean(const Settings& settings, const ChannelStatistics& statistics) {
  const double largest = 255 * RescaleFrom(settings);
  const double mean = std::ranges::max(statistics.mean);
  if (mean <= largest * (1 + kLeastStd)) return;
  throw SettingError("mean",
                     fmt::format("{:.6g} is more than the largest pixel, {:.6g}; give it in "
                                 "the pixels' range, or their range by data.rescale",
                                 mean, largest));
}

ChannelStatistics StatisticsFrom(const Settings& settings, const LabelledImages& train) {
  const bool measures = !settings.Has("mean") || !settings.Has("std");
  ChannelStatistics measured = measures ? StatisticsOf(train) : ChannelStatistics{};
  if (const double rescale = RescaleFrom(settings); rescale != kRescale) {
    for (double& number : measured.mean) number *= rescale / kRescale;
    for (double& number : measured.std) number *= rescale / kRescale;
  }
  ChannelStatistics statistics = {
      .mean = ByChannel(settings, "mean", train.size.channels, measured.mean),
      .std = ByChannel(settings, "std", train.size.channels, measured.std)};
  if (std::ranges::any_of(statistics.std, [](double std) { return std == 0; })) {
    throw SettingError("std",
                       "all pixels of a channel are equal in the images for training, so "
                       "that it has no standard deviation; give a number, such as 1");
  }
  CheckMean(settings, statistics);
  return statistics;
}

Augmentation AugmentationFrom(const Settings& settings) {
  return {.crop_padding = settings.Int("crop_padding"),
          .flip = settings.Bool("flip"),
          .jitter = {.brightness = settings.Float("brightness"),
                     .contrast = settings.Float("contrast"),
                     .saturation = settings.Float("saturation"),
                     .hue = settings.Float("hue")},
          .operations = settings.Int("randaugment"),
          .strength = settings.Int("randaugment_strength"),
          .erase_probability = settings.Float("erasing")};
}

// Throws a SettingError if a setting is given that only applies to image folders.
void RefuseSettingsOfFolders(const Settings& settings) {
  const auto refuse = [&](const char* name) {
    throw SettingError(
        name, fmt::format("is for folders of JPEG and PNG files, and {} holds a data set's "
                          "files; leave it out",
                          settings.Text("folder")));
  };
  for (const char* name :
       {"resize", "keep_ratio", "random_resized_crop", "crop_scale", "crop_ratio"}) {
    if (settings.Has(name)) refuse(name);
  }
  if (settings.Float("eval_fraction") > 0) refuse("eval_fraction");
  if (settings.Text("decode") != "exact") refuse("decode");
  if (settings.Text("unreadable") != "error") refuse("unreadable");
  if (settings.Int("most_pixels") != formats::kMostRasterPixels) refuse("most_pixels");
}

void RefuseSettingsOfFiles(const Settings& settings) {
  for (const char* name : {"pad_to", "crop_padding"}) {
    if (settings.Int(name) == 0) continue;
    throw SettingError(
        name, fmt::format("is for images of one size, and {} holds folders of JPEG and PNG files; "
                          "data.resize and data.random_resized_crop say how they are cut",
                          settings.Text("folder")));
  }
}

std::shared_ptr<const ImageSet> StoredImagesFrom(const Settings& settings) {
  const std::string& folder = settings.Text("folder");
  ImageFiles files = OfFolder([&] { return ReadImageFiles(folder); });
  RefuseSettingsOfFolders(settings);
  const ImageSize size = files.train.size;
  const Augmentation augmentation = AugmentationFrom(settings);
  if (augmentation.crop_padding >= std::min(size.height, size.width)) {
    throw SettingError(
        "crop_padding",
        fmt::format("{} could cut off all of an image of {}; give less than {}",
                    augmentation.crop_padding, size.ToString(), std::min(size.height, size.width)));
  }
  ImagePreparation seen(size, CanvasFrom(settings, size),
                        {StatisticsFrom(settings, files.train), RescaleFrom(settings)},
                        ResamplingFrom(settings));
  return std::make_shared<const StoredImages>(folder, std::move(files), std::move(seen),
                                              augmentation);
}

// The size that the model sees: the shape of its image input.
ImageSize CanvasOf(const ModelSizes& model) {
  const graph::Shape& images = model.images;
  if (images.rank() != 4) {
    throw UserError(
        "data.source: images fill an input 'images' of height, width and channels, and the model "
        "reads none; choose a model that classifies pictures");
  }
  if (images.dim(3) != 1 && images.dim(3) != 3) {
    throw SettingError("folder", fmt::format("the model reads images of {}, and JPEG and PNG files "
                                             "have 1 or 3; set model.channels: 3",
                                             Counted(images.dim(3), "channel")));
  }
  return {images.dim(1), images.dim(2), images.dim(3)};
}

Resizing ResizingFrom(const Settings& settings, const ImageSize& canvas) {
  const int64_t longer = std::max(canvas.height, canvas.width);
  const bool keeps_ratio = !settings.Has("keep_ratio") || settings.Bool("keep_ratio");
  if (!settings.Has("resize")) {
    if (!keeps_ratio) return {.height = canvas.height, .width = canvas.width};
    return {.shorter_side = (longer * kResized + kCutOut / 2) / kCutOut};
  }
  const int64_t side = settings.Int("resize");
  if (side >= longer && keeps_ratio) return {.shorter_side = side};
  if (side >= longer) return {.height = side, .width = side};
  throw SettingError("resize",
                     fmt::format("the crop that the model sees, {}, is larger than an image whose "
                                 "shorter side has {}; give {} or more",
                                 canvas.ToString(), Counted(side, "pixel"), longer));
}

// Reads a range: two numbers, of which the first is not larger.
std::array<double, 2> RangeFrom(const Settings& settings, const std::string& name,
                                const std::array<double, 2>& derived) {
  if (!settings.Has(name)) return derived;
  const std::vector<double>& given = settings.Floats(name);
  if (given.size() != 2 || given[0] > given[1]) {
    throw SettingError(name, fmt::format("give two numbers, from and to, such as [{:.4g}, {:.4g}]",
                                         derived[0], derived[1]));
  }
  return {given[0], given[1]};
}

std::optional<ResizedCrop> CropFrom(const Settings& settings) {
  if (!settings.Has("random_resized_crop") || settings.Bool("random_resized_crop")) {
    const ResizedCrop usual;
    return ResizedCrop{.scale = RangeFrom(settings, "crop_scale", usual.scale),
                       .ratio = RangeFrom(settings, "crop_ratio", usual.ratio)};
  }
  for (const char* name : {"crop_scale", "crop_ratio"}) {
    if (!settings.Has(name)) continue;
    throw SettingError(name, "says how random crops are, and data.random_resized_crop is false");
  }
  return std::nullopt;
}

NamedImages FolderImagesFrom(const Settings& settings, const ModelSizes& model) {
  RefuseSettingsOfFiles(settings);
  const ImageSize canvas = CanvasOf(model);
  const bool grey = canvas.channels == 1;
  const ChannelStatistics statistics = {
      .mean = ByChannel(settings, "mean", canvas.channels, grey ? kGreyMean : kImageNetMean),
      .std = ByChannel(settings, "std", canvas.channels, grey ? kGreyStd : kImageNetStd)};
  CheckMean(settings, statistics);
  ImagePreparation seen(ResizingFrom(settings, canvas), canvas, {statistics, RescaleFrom(settings)},
                        ResamplingFrom(settings));
  const FolderReading reading = {.crop = CropFrom(settings),
                                 .augmentation = AugmentationFrom(settings),
                                 .most_pixels = settings.Int("most_pixels"),
                                 .fast = settings.Text("decode") == "fast",
                                 .skip_unreadable = settings.Text("unreadable") == "skip"};
  const LabelKind kind = LabelKindOf(model.label_values);
  ImageFolder folder = OfFolder([&] {
    const std::string& path = settings.Text("folder");
    const double fraction = settings.Float("eval_fraction");
    // A model without classes reads no labels.
    const bool has_classes = kind != LabelKind::kClass || model.classes > 0;
    const bool listed =
        kind == LabelKind::kClass ? has_classes && HasListedLabels(path) : HasListedImages(path);
    if (!listed) return FindImages(path, fraction, has_classes);
    return FindListedImages(path, fraction, kind, settings.List("class_names"), model.classes);
  });
  std::vector<std::string> classes = folder.classes;
  return {std::make_shared<const FolderImages>(std::move(folder), std::move(seen), reading),
          std::move(classes)};
}

bool HoldsPictures(const std::string& folder) {
  return !HasImageFiles(folder) && (IsImageFolder(folder) || HasListedImages(folder));
}

// Whether images of any size are resized with their aspect ratio kept.
bool KeepsRatio(const ImagePreparation& preparation) {
  return preparation.resizing.shorter_side > 0;
}

// The value of the setting `resize` that resizes images of any size as the preparation does. Throws
// a SettingError if no single number does.
int64_t ResizeOf(const ImagePreparation& preparation) {
  const Resizing& to = preparation.resizing;
  if (to.shorter_side > 0) return to.shorter_side;
  const bool to_canvas =
      to.height == preparation.canvas.height && to.width == preparation.canvas.width;
  if (to.height == to.width && (preparation.any_size || to_canvas)) return to.height;
  throw SettingError(
      "resize", fmt::format("pictures were resized to {} × {} for the model, and then {}, which is "
                            "not done with files of any size; give data.resize to resize them "
                            "otherwise",
                            to.height, to.width,
                            preparation.any_size ? "cut" : "put into the middle of zeros"));
}

// False if no single number describes the resizing: the canvas is not square, and either pictures
// are resized to exactly the canvas or they no longer keep their aspect ratio.
bool SaysResize(const ImagePreparation& preparation, bool keeps_ratio) {
  const Resizing& to = preparation.resizing;
  const ImageSize& canvas = preparation.canvas;
  if (canvas.height == canvas.width) return true;
  if (to.shorter_side > 0) return keeps_ratio;
  return to.height != canvas.height || to.width != canvas.width;
}

// Reads the folder's preparation. UserErrors say which settings can replace the file.
ImagePreparation ReadWithWayOut(const std::function<ImagePreparation()>& read, bool any_size) {
  try {
    return read();
  } catch (const UserError& error) {
    throw UserError(fmt::format(
        "{} (data.mean, data.std, data.rescale, data.interpolation{} together take the "
        "file's place)",
        error.what(), any_size ? ", data.resize and data.keep_ratio" : " and data.pad_to"));
  }
}

}  // namespace

std::vector<Setting> ImageSettings() {
  return {
      {.name = "folder",
       .type = Setting::Type::kString,
       .doc =
           "Where the images are: the four files of MNIST, Fashion-MNIST or another data set "
           "of that form, plain or with `.gz`; CIFAR-10's binary version; or JPEG and PNG files in "
           "folders of their classes, or listed in `metadata.jsonl` (docs/images.md).",
       .required = "name the folder with the images' files"},
      ClassNamesSetting(),
      {.name = "eval_fraction",
       .type = Setting::Type::kFloat,
       .doc = "Of JPEG and PNG files without a folder `val` or `test`, part of each class that is "
              "held "
              "out.",
       .default_value = 0.0,
       .min = 0,
       .max = 1,
       .below_max = true},
      {.name = "resize",
       .doc = "JPEG and PNG files that are held out are resized so that their shorter side has "
              "this number of pixels, and the model sees the middle.",
       .derived =
           "as the folder of `model.init_from` says, or 8/7 of the model's longer side; that "
           "side for a model that makes images",
       .min = 1,
       .max = kMostPixels},
      {.name = "keep_ratio",
       .type = Setting::Type::kBool,
       .doc = "`false`: JPEG and PNG files are resized to `resize` on both sides (not given: to "
              "what the model sees), whatever the ratio of their own.",
       .derived = "as the folder of `model.init_from` says, or true"},
      {.name = "interpolation",
       .type = Setting::Type::kChoice,
       .doc = "How pictures are resized, as Pillow does it (docs/images.md).",
       .derived = "as the folder of `model.init_from` says, or `bilinear`",
       .choices = {ResamplingNames().begin(), ResamplingNames().end()}},
      {.name = "random_resized_crop",
       .type = Setting::Type::kBool,
       .doc =
           "For training, a random part of a JPEG or PNG file is resized to what the model sees; "
           "`false`: it is prepared as those held out.",
       .derived = "true; false for a model that makes images"},
      {.name = "crop_scale",
       .type = Setting::Type::kFloatList,
       .doc = "Between which parts of the image's area a random crop is drawn.",
       .derived = "`[0.08, 1]`",
       .min = 0,
       .max = 1,
       .above_min = true},
      {.name = "crop_ratio",
       .type = Setting::Type::kFloatList,
       .doc = "Between which ratios of width to height a random crop is drawn.",
       .derived = "`[3/4, 4/3]`",
       .min = 0,
       .above_min = true},
      {.name = "pad_to",
       .doc = "Height and width that images are padded to with zeros, themselves in the middle; "
              "0: they stay as they are.",
       .default_value = int64_t{0},
       .min = 0,
       .max = kMostPixels},
      {.name = "crop_padding",
       .doc = "For training, images get that number of zeros on each side, and a random part of "
              "their size is cut out of that; 0: none.",
       .default_value = int64_t{0},
       .min = 0,
       .max = kMostPixels},
      {.name = "flip",
       .type = Setting::Type::kBool,
       .doc = "For training, an image is flipped left to right with probability ½.",
       .default_value = false},
      {.name = "brightness",
       .type = Setting::Type::kFloat,
       .doc = "For training, brightness is multiplied by a number drawn from 1 ± this.",
       .default_value = 0.0,
       .min = 0},
      {.name = "contrast",
       .type = Setting::Type::kFloat,
       .doc = "For training, so is contrast.",
       .default_value = 0.0,
       .min = 0},
      {.name = "saturation",
       .type = Setting::Type::kFloat,
       .doc = "For training, so is saturation.",
       .default_value = 0.0,
       .min = 0},
      {.name = "hue",
       .type = Setting::Type::kFloat,
       .doc = "For training, the hue is turned by a part of the circle drawn from 0 ± this.",
       .default_value = 0.0,
       .min = 0,
       .max = 0.5},
      WorkersSetting(),
      {.name = "randaugment",
       .doc = "For training, the number of operations of RandAugment that change an image, drawn "
              "out of 14.",
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
       .doc = "For training, a box of another image takes the place of a part, of the "
              "distribution Beta(`cutmix`, `cutmix`), and the loss is mixed alike; with `mixup`, "
              "each in half of the images; 0: never.",
       .default_value = 0.0,
       .min = 0,
       .max = kMostAlpha},
      {.name = "mean",
       .type = Setting::Type::kFloatList,
       .doc = "What is subtracted from pixels, bytes times `rescale`, before they are divided by "
              "`std`: a number for each channel, or one for all.",
       .derived = "as the folder of `model.init_from` says, or that of the images for training; of "
                  "JPEG and PNG files ImageNet's; 0.5 for a model that makes images",
       .min = 0},
      {.name = "std",
       .type = Setting::Type::kFloatList,
       .doc = "What pixels are divided by then: a number for each channel, or one for all.",
       .derived =
           "as the folder of `model.init_from` says, or the standard deviation of the images "
           "for training; of JPEG and PNG files ImageNet's; 0.5 for a model that makes images",
       .min = kLeastStd},
      {.name = "rescale",
       .type = Setting::Type::kFloat,
       .doc = "By what a picture's bytes, 0 to 255, are multiplied first.",
       .derived = "as the folder of `model.init_from` says, or 1/255",
       .min = 0,
       .above_min = true},
      {.name = "decode",
       .type = Setting::Type::kChoice,
       .doc = "For training, `exact` gives Pillow's pixels of a JPEG file; `fast` decodes at 1/2, "
              "1/4 or 1/8 what is resized to that size or less, and colours without smoothing "
              "(docs/images.md).",
       .default_value = std::string("exact"),
       .choices = {"exact", "fast"}},
      {.name = "unreadable",
       .type = Setting::Type::kChoice,
       .doc = "What a JPEG or PNG file that cannot be read does: `error` ends the run, with `skip` "
              "the next image takes its place, and the run says how many.",
       .default_value = std::string("error"),
       .choices = {"error", "skip"}},
      {.name = "most_pixels",
       .doc = "The most pixels that a JPEG or PNG file may have; one with more cannot be read.",
       .default_value = formats::kMostRasterPixels,
       .min = 1}};
}

NamedImages ImagesFrom(const Settings& settings, const ModelSizes& model) {
  std::vector<std::string> given = ClassNamesFrom(settings, model.classes);
  NamedImages named;
  if (HoldsPictures(settings.Text("folder"))) {
    named = FolderImagesFrom(settings, model);
  } else {
    named.images = StoredImagesFrom(settings);
  }
  if (!given.empty()) named.class_names = std::move(given);
  return named;
}

std::vector<std::string> FollowPreparation(Settings& settings,
                                           const std::function<ImagePreparation()>& read) {
  const bool any_size = HoldsPictures(settings.Text("folder"));
  std::vector<std::string> open;
  for (const char* const name : {"interpolation", "rescale", "mean", "std"}) {
    if (!settings.Has(name)) open.emplace_back(name);
  }
  const bool asks_ratio = any_size && !settings.Has("keep_ratio");
  const bool asks_resize = any_size && !settings.Has("resize");
  const bool pads = !any_size && !settings.IsGiven("pad_to");
  if (open.empty() && !asks_ratio && !asks_resize && !pads) return {};
  const ImagePreparation preparation = ReadWithWayOut(read, any_size);
  const ByteScale& bytes = preparation.bytes;
  std::map<std::string, SettingValue> found = {
      {"interpolation", std::string(ResamplingNames()[static_cast<size_t>(preparation.filter)])},
      {"rescale", bytes.rescale},
      {"mean", bytes.statistics.mean},
      {"std", bytes.statistics.std}};
  const auto take = [&](const char* name, SettingValue value) {
    open.emplace_back(name);
    found[name] = std::move(value);
  };
  const bool keeps_ratio =
      asks_ratio ? KeepsRatio(preparation) : any_size && settings.Bool("keep_ratio");
  if (asks_ratio) take("keep_ratio", keeps_ratio);
  if (asks_resize && SaysResize(preparation, keeps_ratio)) {
    take("resize", ResizeOf(preparation));
  }
  if (pads && !preparation.any_size && preparation.image != preparation.canvas) {
    take("pad_to", preparation.canvas.height);
  }
  for (const std::string& name : open) settings.Derive(name, found.at(name));
  return open;
}

std::vector<std::string> FollowMaker(Settings& settings, int64_t height, int64_t width) {
  std::vector<std::string> taken;
  const auto take = [&](const char* name, SettingValue value) {
    settings.Derive(name, std::move(value));
    taken.emplace_back(name);
  };
  for (const char* name : {"mean", "std"}) {
    if (!settings.Has(name)) take(name, std::vector<double>{0.5});
  }
  if (!HoldsPictures(settings.Text("folder"))) return taken;
  if (!settings.Has("resize")) take("resize", std::max(height, width));
  const bool crops = settings.Has("random_resized_crop") || settings.Has("crop_scale") ||
                     settings.Has("crop_ratio");
  if (!crops) take("random_resized_crop", false);
  return taken;
}

ImageMixing MixingFrom(const Settings& settings) {
  return {.mixup = settings.Float("mixup"), .cutmix = settings.Float("cutmix")};
}

std::optional<int64_t> CountImageClasses(const Settings& settings, LabelKind kind) {
  const std::string& folder = settings.Text("folder");
  return OfFolder([&]() -> std::optional<int64_t> {
    if (HasImageFiles(folder)) return kStoredClasses;
    // Throws an error that names what is missing.
    if (!HoldsPictures(folder)) return ReadImageFiles(folder).classes;
    const bool one_each = kind == LabelKind::kClass;
    if (one_each ? HasListedLabels(folder) : HasListedImages(folder)) {
      return std::ssize(FindListedClasses(folder, kind, settings.List("class_names")));
    }
    if (!one_each) return std::nullopt;
    return std::ssize(FindClasses(folder));
  });
}

bool HoldsOutImages(const Settings& settings) {
  if (!settings.Has("folder") || !HoldsPictures(settings.Text("folder"))) return true;
  return HasHeldOutImages(settings.Text("folder")) ||
         (settings.Has("eval_fraction") && settings.Float("eval_fraction") > 0);
}

}  // namespace plimsoll::data
