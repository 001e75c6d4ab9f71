#include "trainer/snapshot/picture_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "formats/json.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/source_from.h"
#include "trainer/snapshot/weight_source.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kRescaleFactor = 1.0 / 255;
constexpr int kBilinear = 2;  // as Pillow numbers it

Json SizeJson(const data::ImageSize& size) {
  return {{"height", size.height}, {"width", size.width}};
}

// {"height": …, "width": …} or, in older files, one number for both.
data::ImageSize ReadSize(const formats::JsonObject& config, const std::string& key,
                         int64_t channels) {
  if (config.json().at(key).is_number()) {
    const int64_t side = config.RequireInt(key, 1);
    return {side, side, channels};
  }
  const formats::JsonObject size = config.RequireObject(key);
  return {size.RequireInt("height", 1), size.RequireInt("width", 1), channels};
}

// Of {"shortest_edge": …}; 0: the size is another.
int64_t ShorterSideIn(const formats::JsonObject& config) {
  if (!config.Has("size") || config.json().at("size").is_number()) return 0;
  const formats::JsonObject size = config.RequireObject("size");
  return size.Has("shortest_edge") ? size.RequireInt("shortest_edge", 1) : 0;
}

}  // namespace

bool ClassifiesPictures(const models::Model& model) {
  return model.problem_type() && !model.input_bounds().contains("tokens");
}

bool SegmentsPictures(const models::Model& model) {
  const auto images = model.inputs().find("images"), labels = model.inputs().find("labels");
  return images != model.inputs().end() && labels != model.inputs().end() &&
         labels->second.shape == images->second.shape.DropLast();
}

config::RunConfig RecordedData(const RunRecord& record, const std::string& snapshot) {
  std::vector<std::string> sets = ModelSets(record);
  for (const auto& [key, value] : record.config) {
    if (key.starts_with("data.")) sets.push_back(fmt::format("{}={}", key, value));
  }
  return LoadRunText("", snapshot, sets).config;
}

std::optional<data::ImagePreparation> PreparationBy(const config::RunConfig& config,
                                                    const models::Model& model) {
  const std::unique_ptr<data::Source> source = SourceFrom(config, model, {});
  const data::ImagePreparation* const own = source->image_preparation();
  return own == nullptr ? std::nullopt : std::optional(*own);
}

data::ImagePreparation ReadPreparation(const std::string& file, const data::ImageSize& model) {
  const auto config = formats::JsonObject::FromFile(file);
  const auto channels = static_cast<size_t>(model.channels);
  const auto is_not_the_models = [&](const std::string& key) {
    config.Fail(
        key, fmt::format("is not that of the model's images, {} × {}", model.height, model.width));
  };
  // Pictures are resized to `image`, and zeros around that make the model's size; or their shorter
  // sides are, and the model's size is cut out of the middle.
  data::ImageSize image = model;
  const int64_t shorter_side = ShorterSideIn(config);
  if (config.Has("size") && shorter_side == 0) image = ReadSize(config, "size", model.channels);
  if (shorter_side > 0) {
    if (!config.GetBool("do_center_crop", false) || !config.Has("crop_size")) {
      config.Fail("size",
                  "keeps the ratio of the sides, and nothing (do_center_crop, crop_size) "
                  "makes the model's size of that");
    }
    if (ReadSize(config, "crop_size", model.channels) != model) is_not_the_models("crop_size");
    if (shorter_side < std::max(model.height, model.width)) {
      config.Fail("crop_size", "is larger than a picture of that size.shortest_edge");
    }
  } else if (config.GetBool("do_center_crop", false) && config.Has("crop_size")) {
    if (ReadSize(config, "crop_size", model.channels) != model) is_not_the_models("crop_size");
    if (image.height > model.height || image.width > model.width) {
      config.Fail("crop_size", "cuts a part out of each picture, and pictures are predicted whole");
    }
  } else if (image != model) {
    is_not_the_models("size");
  }
  if (std::abs(config.GetFloat("rescale_factor", kRescaleFactor) / kRescaleFactor - 1) > 1e-3) {
    config.Fail("rescale_factor", "only 1 / 255 is supported");
  }
  data::ChannelStatistics statistics = {.mean = std::vector<double>(channels, 0.0),
                                        .std = std::vector<double>(channels, 1.0)};
  if (config.GetBool("do_normalize", true)) {
    statistics = {config.RequireFloats("image_mean"), config.RequireFloats("image_std")};
  }
  for (const auto& [key, values] :
       {std::pair("image_mean", &statistics.mean), std::pair("image_std", &statistics.std)}) {
    if (values->size() != channels) config.Fail(key, "has not one number for each channel");
  }
  if (std::ranges::any_of(statistics.std, [](double std) { return std <= 0; })) {
    config.Fail("image_std", "is not above 0");
  }
  if (shorter_side > 0) return {shorter_side, model, statistics};
  return {image, model, statistics};
}

std::string PreparationText(const data::ImagePreparation& preparation) {
  // ViTImageProcessor resizes alone; BitImageProcessor's crop takes the middle, and adds zeros to
  // what is smaller.
  const int64_t shorter_side = preparation.shorter_side;
  const bool crops = shorter_side > 0 || preparation.image != preparation.canvas;
  Json config = {{"image_processor_type", crops ? "BitImageProcessor" : "ViTImageProcessor"},
                 {"do_convert_rgb", preparation.image.channels == 3},
                 {"do_resize", true},
                 {"size", shorter_side > 0 ? Json{{"shortest_edge", shorter_side}}
                                           : SizeJson(preparation.image)},
                 {"resample", kBilinear}};
  if (crops) config["crop_size"] = SizeJson(preparation.canvas);
  config.update({{"do_center_crop", crops},
                 {"do_rescale", true},
                 {"rescale_factor", kRescaleFactor},
                 {"do_normalize", true},
                 {"image_mean", preparation.statistics.mean},
                 {"image_std", preparation.statistics.std}});
  return config.dump(2) + "\n";
}

void WritePreparation(const std::string& text, const std::string& folder) {
  const std::string path = (fs::path(folder) / kPreparationFile).string();
  if (text.empty()) {
    std::error_code error;
    fs::remove(path, error);
    return;
  }
  OutputFile file(path);
  file.Write(text);
  file.Commit();
}

}  // namespace plimsoll::trainer
