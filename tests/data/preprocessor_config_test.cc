// What transformers' image processors say (https://huggingface.co/docs/transformers, their
// preprocessor_config.json), and what is made of it.
#include "data/images/preprocessor_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using nlohmann::json;

constexpr ImageSize kModel = {224, 224, 3};

std::string TextOf(const ImagePreparation& p) {
  const std::string resized = p.resizing.shorter_side > 0
                                  ? fmt::format("shorter side {}", p.resizing.shorter_side)
                                  : fmt::format("{} × {}", p.resizing.height, p.resizing.width);
  return fmt::format("{} by {}, {} of {}, ({:.6g} · x − {:.4g}) / {:.4g}", resized,
                     ResamplingNames()[static_cast<size_t>(p.filter)], p.canvas.ToString(),
                     p.image.ToString(), p.bytes.rescale, fmt::join(p.bytes.statistics.mean, " "),
                     fmt::join(p.bytes.statistics.std, " "));
}

class PreprocessorConfig : public testing::Test {
 protected:
  ImagePreparation Read(const json& file, const ImageSize& model = kModel) const {
    return ReadPreparation(folder_.Write(kPreparationFile, file.dump()), model);
  }
  // Of such a file with the means and deviations 0.5.
  std::string Told(json file, const ImageSize& model = kModel) const {
    file.update({{"image_mean", {0.5, 0.5, 0.5}}, {"image_std", {0.5, 0.5, 0.5}}});
    const std::string text = TextOf(Read(file, model));
    return text.substr(0, text.find(", ("));
  }
  void ExpectRefused(const json& file, std::initializer_list<std::string_view> parts,
                     const ImageSize& model = kModel) const {
    json all = {{"image_mean", {0.5, 0.5, 0.5}}, {"image_std", {0.5, 0.5, 0.5}}};
    all.update(file);
    const std::string message = UserErrorOf([&] { Read(all, model); });
    EXPECT_TRUE(message.starts_with(folder_ / kPreparationFile)) << message;
    ExpectMessage(message, parts);
  }

  const TempFolder folder_;
};

TEST_F(PreprocessorConfig, EachKeyHasARule) {
  const json crop = {{"do_center_crop", true}, {"crop_size", 224}};
  WalkKeys({.rules = PreparationKeys(),
            .valid = {{"image_mean", {0.5, 0.4, 0.3}}, {"image_std", {0.5, 0.4, 0.3}}},
            .read = [&](const json& file) { return TextOf(Read(file)); },
            .beside = {{"crop_size", crop},
                       {"crop_pct",
                        {{"image_processor_type", "ConvNextImageProcessor"}, {"size", 224}}}}});
}

TEST_F(PreprocessorConfig, GivesPicturesTheModelsSize) {
  const json size = {{"height", 224}, {"width", 224}};
  EXPECT_EQ(Told({{"image_processor_type", "ViTImageProcessor"}, {"size", size}}),
            "224 × 224 by bilinear, 224 × 224 × 3 of 224 × 224 × 3");
  EXPECT_EQ(Told({{"image_processor_type", "ViTImageProcessorFast"},
                  {"size", size},
                  {"crop_size", nullptr},
                  {"do_center_crop", nullptr},
                  {"default_to_square", true},
                  {"resample", 0}}),
            "224 × 224 by nearest, 224 × 224 × 3 of 224 × 224 × 3");
  // A size of one number is that of both sides, or of the shorter one.
  EXPECT_EQ(Told({{"feature_extractor_type", "ViTFeatureExtractor"}, {"size", 224}}),
            "224 × 224 by bilinear, 224 × 224 × 3 of 224 × 224 × 3");
  EXPECT_EQ(Told({{"feature_extractor_type", "CLIPFeatureExtractor"},
                  {"size", 256},
                  {"do_center_crop", true},
                  {"crop_size", 224}}),
            "shorter side 256 by bicubic, 224 × 224 × 3 of 224 × 224 × 3");
  EXPECT_EQ(
      Told({{"image_processor_type", "BitImageProcessor"}, {"size", {{"shortest_edge", 256}}}}),
      "shorter side 256 by bicubic, 224 × 224 × 3 of 224 × 224 × 3");
  EXPECT_EQ(Told({{"feature_extractor_type", "DeiTFeatureExtractor"},
                  {"size", 256},
                  {"do_center_crop", true},
                  {"crop_size", 224},
                  {"resample", 3}}),
            "256 × 256 by bicubic, 224 × 224 × 3 of 224 × 224 × 3");
  // ConvNeXT's size is that of the crop, and from 384 on nothing is cut.
  const json resnet = {{"feature_extractor_type", "ConvNextFeatureExtractor"},
                       {"crop_pct", 0.875},
                       {"resample", 3},
                       {"size", 224}};
  EXPECT_EQ(Told(resnet), "shorter side 256 by bicubic, 224 × 224 × 3 of 224 × 224 × 3");
  json large = resnet;
  large["size"] = {{"shortest_edge", 384}};
  EXPECT_EQ(Told(large, {384, 384, 3}), "384 × 384 by bicubic, 384 × 384 × 3 of 384 × 384 × 3");
  // What is smaller lies among zeros.
  EXPECT_EQ(Told({{"size", 28}, {"do_center_crop", true}, {"crop_size", 32}}, {32, 32, 3}),
            "28 × 28 by bilinear, 32 × 32 × 3 of 28 × 28 × 3");
}

TEST_F(PreprocessorConfig, OtherSizesAreRefused) {
  ExpectRefused({{"size", 256}}, {"size: is not that of the model's images, 224 × 224"});
  ExpectRefused({{"size", {{"shortest_edge", 256}}}}, {"size: keeps the ratio of the sides"});
  ExpectRefused({{"size", {{"shortest_edge", 256}, {"longest_edge", 300}}}}, {"'longest_edge'"});
  ExpectRefused({{"size", {{"max_height", 256}}}}, {"size: 'max_height'"});
  ExpectRefused({{"size", 256}, {"do_center_crop", true}, {"crop_size", 200}},
                {"crop_size: is not that of the model's images"});
  ExpectRefused({{"size", {{"height", 256}, {"width", 200}}}, {"do_center_crop", true}},
                {"crop_size: is larger than a picture on one side"});
  ExpectRefused({{"size", 224}, {"crop_pct", 0.9}}, {"crop_pct: is known of ConvNext"});
  ExpectRefused({{"do_resize", false}}, {"do_resize: is false", "set it to true"});
  ExpectRefused({{"image_processor_type", "LevitImageProcessor"}},
                {"image_processor_type: LevitImageProcessor is not known", "ViTImageProcessor"});
  ExpectRefused({{"resample", 6}}, {"resample"});
}

TEST_F(PreprocessorConfig, BytesAreRescaledAndNormalised) {
  const auto told = [&](const json& more) {
    json file = {{"image_mean", {0.5, 0.4, 0.3}}, {"image_std", {0.1, 0.2, 0.3}}};
    file.update(more);
    const std::string text = TextOf(Read(file));
    return text.substr(text.find(", (") + 2);
  };
  const std::string usual = "(0.00392157 · x − 0.5 0.4 0.3) / 0.1 0.2 0.3";
  EXPECT_EQ(told(json::object()), usual);
  EXPECT_EQ(told({{"rescale_factor", 0.00392156862745098}}), usual);
  EXPECT_EQ(told({{"do_rescale", false}}), "(1 · x − 0.5 0.4 0.3) / 0.1 0.2 0.3");
  EXPECT_EQ(told({{"rescale_factor", 0.0078125}}), "(0.0078125 · x − 0.5 0.4 0.3) / 0.1 0.2 0.3");
  EXPECT_EQ(told({{"image_mean", 0.5}, {"image_std", 0.25}}),
            "(0.00392157 · x − 0.5 0.5 0.5) / 0.25 0.25 0.25");
  EXPECT_EQ(told({{"do_normalize", false}}), "(0.00392157 · x − 0 0 0) / 1 1 1");
  ExpectRefused({{"rescale_factor", 0}}, {"rescale_factor: is not above 0"});
  ExpectRefused({{"image_mean", {0.5}}}, {"image_mean: has not one number for each channel"});
  ExpectRefused({{"image_std", {0.5, 0, 1}}}, {"image_std: is not above 0"});
}

TEST_F(PreprocessorConfig, GoesWithAModelOfOtherImages) {
  const ImageSize other = {384, 384, 3};
  const auto told = [&](const ImagePreparation& preparation) {
    const std::string text = TextOf(preparation.WithCanvas(other));
    return text.substr(0, text.find(" of "));
  };
  const ByteScale bytes = {{{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}}};
  EXPECT_EQ(told({kModel, kModel, bytes}), "384 × 384 by bilinear, 384 × 384 × 3");
  EXPECT_EQ(told({Resizing{.shorter_side = 256}, kModel, bytes, Resampling::kBicubic}),
            "shorter side 439 by bicubic, 384 × 384 × 3");
  EXPECT_EQ(told({Resizing{.height = 256, .width = 256}, kModel, bytes}),
            "439 × 439 by bilinear, 384 × 384 × 3");
}

// What a run writes, it reads.
TEST_F(PreprocessorConfig, IsReadAsItIsWritten) {
  const ByteScale bytes = {{{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}}};
  const ByteScale plain = {bytes.statistics, 1}, other = {bytes.statistics, 0.01};
  for (const ImagePreparation& preparation :
       {ImagePreparation(kModel, kModel, bytes),
        ImagePreparation(ImageSize{28, 20, 3}, kModel, plain, Resampling::kNearest),
        ImagePreparation(Resizing{.shorter_side = 256}, kModel, other, Resampling::kBicubic),
        ImagePreparation(Resizing{.height = 256, .width = 256}, kModel, bytes,
                         Resampling::kLanczos)}) {
    const std::string text = PreparationText(preparation);
    EXPECT_EQ(TextOf(Read(json::parse(text))), TextOf(preparation)) << text;
  }
}

}  // namespace
}  // namespace plimsoll::data
