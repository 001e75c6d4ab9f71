#include "data/images/preprocessor_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

using formats::Harmless;
using formats::JsonObject;
using formats::Printable;
using formats::Read;
using formats::Refused;

constexpr const char* kLeftOut =
    "pictures are prepared without it; remove the key if the model was trained without it";
constexpr const char* kCalls = "says how the processor is called, not what it does to pictures";

constexpr formats::KeyRule kKeys[] = {
    Read("image_processor_type"),
    Read("feature_extractor_type"),
    Read("do_resize"),
    Read("size"),
    Read("default_to_square"),
    Read("resample"),
    Read("do_center_crop"),
    Read("crop_size"),
    Read("crop_pct"),
    Read("do_rescale"),
    Read("rescale_factor"),
    Read("do_normalize"),
    Read("image_mean"),
    Read("image_std"),
    Refused("do_pad", kLeftOut),
    Refused("pad_size", kLeftOut),
    Refused("size_divis*", kLeftOut),
    Refused("do_flip_channel_order", kLeftOut),
    Refused("do_grayscale", kLeftOut),
    Refused("do_thumbnail", kLeftOut),
    Refused("do_align_long_axis", kLeftOut),
    Refused("do_crop_margin", kLeftOut),
    Refused("do_color_quantize", kLeftOut),
    Refused("keep_aspect_ratio", kLeftOut),
    Refused("ensure_multiple_of", kLeftOut, "1"),
    Refused("rescale_offset", kLeftOut),
    Refused("offset", kLeftOut),
    Refused("include_top", kLeftOut),
    Refused("auto_map",
            "the file names code of its own; write down what that does by transformers' "
            "keys (size, resample, image_mean, …), and remove the key"),
    Harmless("do_convert_rgb", "pictures get the model's channels"),
    Harmless("data_format", "is the layout of transformers' tensors"),
    Harmless("input_data_format", "is the layout of arrays that are handed to transformers"),
    Harmless("processor_class", kCalls),
    Harmless("_processor_class", kCalls),
    Harmless("_valid_processor_keys", kCalls),
    Harmless("_name_or_path", kCalls),
    Harmless("transformers_version", kCalls),
    Harmless("return_tensors", kCalls),
    Harmless("device", kCalls),
    Harmless("disable_grouping", "groups pictures of one size, with the same result"),
    Harmless("model_input_names", kCalls),
    Harmless("image_seq_length", "is for models that read texts, too"),
    Harmless("do_reduce_labels", "is about maps of labels, which classifiers have none of"),
    Harmless("reduce_labels", "is about maps of labels, which classifiers have none of"),
};

// The defaults of an image processor, for keys that its file leaves out.
struct Processor {
  std::string_view name;  // the class name without "ImageProcessor" or "FeatureExtractor"
  bool squares;           // whether a `size` of one number gives both sides
  Resampling filter;
  bool crops;
};
constexpr Processor kPlain = {"", true, Resampling::kBilinear, false};
constexpr Processor kProcessors[] = {
    {"ViT", true, Resampling::kBilinear, false},  {"DeiT", true, Resampling::kBicubic, true},
    {"Beit", true, Resampling::kBicubic, true},   {"Bit", false, Resampling::kBicubic, true},
    {"CLIP", false, Resampling::kBicubic, true},  {"ConvNext", false, Resampling::kBicubic, false},
    {"Siglip", true, Resampling::kBicubic, false}};

// ConvNeXT's processor: for sizes below this one, a picture is resized larger and its middle is cut
// out.
constexpr int64_t kLeastUncut = 384;
constexpr double kUsualCropPart = 224.0 / 256;
constexpr int64_t kUsualCrop = 224;

const Processor& ProcessorOf(const JsonObject& config) {
  std::string key = "image_processor_type";
  if (config.GetString(key, "").empty()) key = "feature_extractor_type";
  const std::string type = config.GetString(key, "");
  config.GetString("feature_extractor_type", "");
  if (type.empty()) return kPlain;
  std::vector<std::string> known;
  for (const Processor& processor : kProcessors) {
    for (const char* const ending :
         {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
      if (type == std::string(processor.name) + ending) return processor;
    }
    known.push_back(std::string(processor.name) + "ImageProcessor");
  }
  config.Fail(key, fmt::format("{} is not known; where one of {} does the same, write its name",
                               Printable(type), fmt::join(known, ", ")));
}

// Reads {"height": …, "width": …}, or one number for both.
ImageSize SizeIn(const JsonObject& config, const std::string& key, int64_t channels) {
  if (config.json().at(key).is_number()) {
    const int64_t side = config.RequireInt(key, 1);
    return {side, side, channels};
  }
  const JsonObject size = config.RequireObject(key);
  for (const std::string& side : size.Keys()) {
    if (side == "height" || side == "width" || !size.Has(side)) continue;
    config.Fail(key, fmt::format("'{}' is not supported; give height and width", Printable(side)));
  }
  return {size.RequireInt("height", 1), size.RequireInt("width", 1), channels};
}

// Reads {"shortest_edge": …}, or one number if the processor means the shorter side by it. Returns
// 0 if `size` has another form.
int64_t ShorterSideIn(const JsonObject& config, const Processor& processor) {
  const bool squares = config.GetBool("default_to_square", processor.squares);
  if (!config.Has("size")) return 0;
  if (config.json().at("size").is_number()) return squares ? 0 : config.RequireInt("size", 1);
  const JsonObject size = config.RequireObject("size");
  if (!size.Has("shortest_edge")) return 0;
  if (size.Has("longest_edge")) {
    config.Fail("size", "'longest_edge' is not supported; give shortest_edge alone");
  }
  return size.RequireInt("shortest_edge", 1);
}

// How pictures are brought to the model's size.
struct Geometry {
  std::optional<Resizing>
      resizing;     // followed by a centre crop; nullopt: pictures are resized to `image`
  ImageSize image;  // padded with zeros if the model's size is larger
};

class GeometryReader {
 public:
  GeometryReader(const JsonObject& config, const Processor& processor, const ImageSize& model)
      : config_(config), processor_(processor), model_(model) {}

  Geometry Read() const {
    if (!config_.GetBool("do_resize", true)) {
      config_.Fail("do_resize",
                   "is false, and pictures are resized to the model's size here; set it to true, "
                   "which leaves those of that size as they are");
    }
    const int64_t shorter_side = ShorterSideIn(config_, processor_);
    const bool cuts_a_part = config_.Has("crop_pct") || processor_.name == "ConvNext";
    if (cuts_a_part && config_.Has("size")) return ReadPart(shorter_side);
    if (cuts_a_part) config_.Fail("size", "is missing; write that of the model's images");
    const bool crops = config_.GetBool("do_center_crop", processor_.crops);
    if (shorter_side > 0) return ReadShorterSide(shorter_side, crops);
    const ImageSize image = config_.Has("size") ? SizeIn(config_, "size", model_.channels) : model_;
    if (!crops) {
      if (image != model_) FailSize("size");
      return {std::nullopt, image};
    }
    RequireCrop();
    if (image.height <= model_.height && image.width <= model_.width) return {std::nullopt, image};
    if (image.height < model_.height || image.width < model_.width) {
      config_.Fail("crop_size", "is larger than a picture on one side, and smaller on the other");
    }
    return {Resizing{.height = image.height, .width = image.width}, model_};
  }

 private:
  [[noreturn]] void FailSize(const std::string& key) const {
    config_.Fail(key, fmt::format("is not that of the model's images, {} × {}", model_.height,
                                  model_.width));
  }

  void RequireCrop() const {
    const ImageSize crop = config_.Has("crop_size")
                               ? SizeIn(config_, "crop_size", model_.channels)
                               : ImageSize{kUsualCrop, kUsualCrop, model_.channels};
    if (crop != model_) FailSize("crop_size");
  }

  Geometry ReadShorterSide(int64_t side, bool crops) const {
    if (!crops) {
      config_.Fail("size",
                   "keeps the ratio of the sides, and nothing (do_center_crop, crop_size) "
                   "makes the model's size of that");
    }
    RequireCrop();
    if (side < std::max(model_.height, model_.width)) {
      config_.Fail("crop_size", "is larger than a picture of that size.shortest_edge");
    }
    return {Resizing{.shorter_side = side}, model_};
  }

  // ConvNeXT's `size` is the size of the crop.
  Geometry ReadPart(int64_t side) const {
    if (processor_.name != "ConvNext") {
      config_.Fail("crop_pct",
                   "is known of ConvNextImageProcessor alone; write size and crop_size "
                   "in its place");
    }
    const double part = config_.GetFloat("crop_pct", kUsualCropPart);
    if (!(part > 0 && part <= 1)) config_.Fail("crop_pct", "is not above 0 and at most 1");
    if (side == 0) config_.Fail("size", "has no shortest_edge; write it so");
    if (model_.height != side || model_.width != side) FailSize("size");
    if (side >= kLeastUncut) return {std::nullopt, model_};
    return {Resizing{.shorter_side = static_cast<int64_t>(static_cast<double>(side) / part)},
            model_};
  }

  const JsonObject& config_;
  const Processor& processor_;
  const ImageSize& model_;
};

Resampling FilterIn(const JsonObject& config, const Processor& processor) {
  const auto last = static_cast<int64_t>(ResamplingNames().size()) - 1;
  return static_cast<Resampling>(
      config.GetInt("resample", static_cast<int64_t>(processor.filter), 0, last));
}

// Reads one number for each channel, or one number for all channels.
std::vector<double> NumbersIn(const JsonObject& config, const std::string& key, size_t channels) {
  if (config.Has(key) && config.json().at(key).is_number()) {
    return std::vector<double>(channels, config.RequireFloat(key));
  }
  return config.RequireFloats(key);
}

ByteScale BytesIn(const JsonObject& config, int64_t channels) {
  const auto count = static_cast<size_t>(channels);
  ByteScale bytes = {.statistics = {.mean = std::vector<double>(count, 0.0),
                                    .std = std::vector<double>(count, 1.0)}};
  const double factor = config.GetFloat("rescale_factor", kRescale);
  if (!(factor > 0)) config.Fail("rescale_factor", "is not above 0");
  constexpr double kRounding = 1e-6;  // relative error of 1 / 255 as files write it
  if (!config.GetBool("do_rescale", true)) {
    bytes.rescale = 1;
  } else if (std::abs(factor / kRescale - 1) > kRounding) {
    bytes.rescale = factor;
  }
  if (config.GetBool("do_normalize", true)) {
    bytes.statistics = {NumbersIn(config, "image_mean", count),
                        NumbersIn(config, "image_std", count)};
  }
  for (const auto& [key, values] : {std::pair("image_mean", &bytes.statistics.mean),
                                    std::pair("image_std", &bytes.statistics.std)}) {
    if (values->size() != count) config.Fail(key, "has not one number for each channel");
  }
  if (std::ranges::any_of(bytes.statistics.std, [](double std) { return !(std > 0); })) {
    config.Fail("image_std", "is not above 0");
  }
  return bytes;
}

nlohmann::ordered_json SizeJson(int64_t height, int64_t width) {
  return {{"height", height}, {"width", width}};
}

}  // namespace

std::span<const formats::KeyRule> PreparationKeys() { return kKeys; }

ImagePreparation ReadPreparation(const std::string& file, const ImageSize& model) {
  const JsonObject config = JsonObject::FromFile(file);
  formats::CheckKeys(config, kKeys);
  const Processor& processor = ProcessorOf(config);
  const Geometry geometry = GeometryReader(config, processor, model).Read();
  const Resampling filter = FilterIn(config, processor);
  ByteScale bytes = BytesIn(config, model.channels);
  if (geometry.resizing) return {*geometry.resizing, model, std::move(bytes), filter};
  return {geometry.image, model, std::move(bytes), filter};
}

std::string PreparationText(const ImagePreparation& preparation) {
  // ViTImageProcessor only resizes. BitImageProcessor also crops the middle, and pads smaller
  // pictures with zeros.
  const Resizing& to = preparation.resizing;
  const ImageSize& canvas = preparation.canvas;
  const bool crops = to.shorter_side > 0 || to.height != canvas.height || to.width != canvas.width;
  const double rescale = preparation.bytes.rescale;
  nlohmann::ordered_json config = {
      {"image_processor_type", crops ? "BitImageProcessor" : "ViTImageProcessor"},
      {"do_convert_rgb", canvas.channels == 3},
      {"do_resize", true},
      {"size", to.shorter_side > 0 ? nlohmann::ordered_json{{"shortest_edge", to.shorter_side}}
                                   : SizeJson(to.height, to.width)},
      {"resample", static_cast<int>(preparation.filter)}};
  if (crops) config["crop_size"] = SizeJson(canvas.height, canvas.width);
  config.update({{"do_center_crop", crops},
                 {"do_rescale", rescale != 1},
                 {"rescale_factor", rescale == 1 ? kRescale : rescale},
                 {"do_normalize", true},
                 {"image_mean", preparation.bytes.statistics.mean},
                 {"image_std", preparation.bytes.statistics.std}});
  return config.dump(2) + "\n";
}

void WritePreparation(const std::string& text, const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kPreparationFile).string();
  if (text.empty()) {
    std::error_code error;
    std::filesystem::remove(path, error);
    return;
  }
  WriteWhole(path, text);
}

}  // namespace plimsoll::data
