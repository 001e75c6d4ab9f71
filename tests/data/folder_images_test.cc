// The source "images" with folders of JPEG and PNG files, by the interface that training has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/images/image_augmentation.h"
#include "data/images/image_preparation.h"
#include "data/images/picture_scaling.h"
#include "data/prefetch.h"
#include "data/source.h"
#include "formats/jpeg.h"
#include "formats/png.h"
#include "tests/data/image_folders.h"
#include "tests/formats/jpeg_kinds.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using Given = std::map<std::string, SettingValue>;

struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  bool operator==(const Batch&) const = default;

  // Slots of `rows` samples of the shape.
  std::vector<graph::Slot> Slots(int64_t rows, const graph::Shape& sample) {
    const graph::Shape shape = {rows, sample.dim(1), sample.dim(2), sample.dim(3)};
    images.assign(static_cast<size_t>(shape.elements()), NAN);
    labels.assign(static_cast<size_t>(rows), -7);
    return {{"images", {graph::DType::kFloat32, shape}, std::as_writable_bytes(std::span(images))},
            {"labels", {graph::DType::kInt32, {rows}}, std::as_writable_bytes(std::span(labels))}};
  }
};

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Twelve images to train on and three held out, of three classes. Image i is 10 i in all of its
// bytes, height 6 + i and width 8; those held out are 200 and more.
class FolderImages : public testing::Test {
 protected:
  FolderImages() {
    for (int i = 0; i < 15; ++i) {
      const std::string part = i < 12 ? "train/" : "val/";
      const std::string name = part + std::string(1, static_cast<char>('a' + i % 3));
      fs::create_directories(folder_ / name);
      const auto byte = static_cast<uint8_t>(i < 12 ? 10 * i : 200 + i);
      const std::vector<uint8_t> pixels(static_cast<size_t>((6 + i) * 8 * 3), byte);
      Write(name, i, formats::EncodePng(8, 6 + i, pixels));
    }
  }
  std::string Write(const std::string& name, int number, const std::vector<uint8_t>& file) const {
    return folder_.Write(name + "/" + std::to_string(100 + number) + ".png", Text(file));
  }

  // Bytes over 255 of a model that sees 4 × 4 pixels, unless asked otherwise.
  std::unique_ptr<Source> Make(Given given = {}, const graph::Shape& images = {1, 4, 4, 3},
                               uint64_t seed = 3) const {
    given.emplace("folder", folder_.path());
    given.emplace("mean", std::vector<double>{0});
    given.emplace("std", std::vector<double>{1});
    const SourceKind* const kind = FindSource("images");
    Settings settings;
    for (const auto& [name, value] : given) settings.Set(name, value);
    CompleteSettings(kind->settings, kind->complete, settings);
    return kind->make(settings, {.classes = 3, .images = images}, seed);
  }
  std::string RefusalOf(const std::string& setting, const Given& given,
                        const graph::Shape& images = {1, 4, 4, 3}) const {
    return SettingErrorOf(setting, [&] { Make(given, images); });
  }
  static Batch Fill(const Source& source, int64_t first, int64_t rows,
                    const graph::Shape& sample = {1, 4, 4, 3}) {
    Batch batch;
    source.Fill(first, batch.Slots(rows, sample));
    return batch;
  }
  static int ByteOf(const Batch& batch, int64_t row) {
    return static_cast<int>(std::lround(batch.images[static_cast<size_t>(row * 48)] * 255));
  }

  const TempFolder folder_;
};

TEST_F(FolderImages, AreReadOnceAnEpoch) {
  const auto source = Make();
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(source->epoch_samples(), 12);
  std::set<std::vector<int>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const Batch batch = Fill(*source, 12 * epoch, 12);
    std::vector<int> order;
    for (int64_t row = 0; row < 12; ++row) {
      order.push_back(ByteOf(batch, row));
      EXPECT_EQ(batch.labels[static_cast<size_t>(row)], order.back() / 10 % 3);
      for (size_t i = 0; i < 48; ++i) {
        EXPECT_EQ(batch.images[static_cast<size_t>(row) * 48 + i],
                  static_cast<float>(order.back()) / 255.0f);
      }
    }
    orders.insert(order);
    std::ranges::sort(order);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], 10 * i);
  }
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_THAT(
      source->Describe({.samples_per_step = 4, .samples = 24}),
      HasSubstr("data: 12 JPEG or PNG files in 3 classes (a, b, c) to train on, 4 per step, "
                "2.0 epochs\n  seen as 4 × 4 × 3\n  cropped at random"));
}

// An image whose pixels all differ.
class DifferingPixels : public FolderImages {
 protected:
  DifferingPixels() {
    for (const char* part : {"train", "val"}) fs::remove_all(folder_ / part);
    fs::create_directories(folder_ / "a");
    for (int i = 0; i < 40 * 30 * 3; ++i) pixels_.push_back(static_cast<uint8_t>(i * 7 + i / 90));
    Write("a", 0, formats::EncodePng(30, 40, pixels_));
  }

  std::vector<uint8_t> pixels_;
};

TEST_F(DifferingPixels, DependOnSampleAndSeedAlone) {
  const Given given = {{"flip", true},      {"brightness", 0.4}, {"contrast", 0.4},
                       {"saturation", 0.4}, {"hue", 0.1},        {"randaugment", int64_t{1}},
                       {"erasing", 0.5}};
  const auto source = Make(given);
  const Batch all = Fill(*source, 0, 32);
  std::set<std::vector<float>> versions;
  for (int64_t sample = 0; sample < 32; ++sample) {
    const Batch one = Fill(*source, sample, 1);
    EXPECT_TRUE(std::equal(one.images.begin(), one.images.end(), all.images.begin() + 48 * sample));
    versions.insert(one.images);
  }
  EXPECT_GT(versions.size(), 28u);
  EXPECT_EQ(Fill(*Make(given), 0, 32), all);
  EXPECT_NE(Fill(*Make(given, {1, 4, 4, 3}, 4), 0, 32), all);
  // The same by any number of workers.
  for (const int workers : {1, 3}) {
    Prefetcher prefetcher(*source, workers, [](int64_t number) { return 8 * number; });
    for (int64_t number = 0; number < 4; ++number) {
      Batch batch;
      prefetcher.Fill(number, batch.Slots(8, {1, 4, 4, 3}));
      EXPECT_TRUE(std::equal(batch.images.begin(), batch.images.end(),
                             all.images.begin() + 8 * 48 * number));
    }
  }
}

// Without random crops an image to train on is what a held-out one would be.
TEST_F(DifferingPixels, TheMiddleIsSeenWithoutRandomCrops) {
  const auto source = Make({{"random_resized_crop", false}, {"resize", int64_t{5}}});
  const ImagePreparation& seen = *source->image_preparation();
  EXPECT_EQ(seen.resizing.shorter_side, 5);
  std::vector<float> expected(48);
  seen.DrawPicture(pixels_, {40, 30, 3}, expected);
  EXPECT_EQ(Fill(*source, 0, 1).images, expected);
  EXPECT_NE(Fill(*Make(), 0, 1).images, expected);
  // 8/7 of the side.
  EXPECT_EQ(Make({}, {1, 224, 224, 3})->image_preparation()->resizing.shorter_side, 256);
  EXPECT_EQ(Make({}, {1, 32, 32, 3})->image_preparation()->resizing.shorter_side, 37);
}

// keep_ratio: false takes the whole picture, whatever its ratio; `resample` is for random crops,
// too.
TEST_F(DifferingPixels, AreResizedAsAsked) {
  const Given given = {{"keep_ratio", false}, {"interpolation", std::string("bicubic")}};
  const ImageSize size = {40, 30, 3};
  const auto expect = [&](const Given& more, const std::vector<uint8_t>& bytes) {
    Given all = more;
    all.insert(given.begin(), given.end());
    all.emplace("random_resized_crop", false);
    const auto source = Make(all);
    std::vector<float> expected(48);
    for (size_t i = 0; i < 48; ++i) {
      expected[i] = source->image_preparation()->normalised(static_cast<int64_t>(i % 3), bytes[i]);
    }
    EXPECT_EQ(Fill(*source, 0, 1).images, expected);
  };
  expect({}, Resized(pixels_, size, 4, 4, Resampling::kBicubic));
  expect({{"resize", int64_t{6}}},
         ResizedMiddle(pixels_, size, {6, 6, 3}, 4, 4, Resampling::kBicubic));
  EXPECT_NE(Fill(*Make({{"interpolation", std::string("nearest")}}), 0, 1).images,
            Fill(*Make(), 0, 1).images);
  EXPECT_THAT(Make(given)->Describe({}), HasSubstr("resized to 4 × 4 (bicubic)\n"));
}

TEST_F(DifferingPixels, BytesAreRescaledAsAsked) {
  const Given plain = {{"mean", std::vector<double>{0.5}}, {"std", std::vector<double>{2}}};
  Given raw = plain;
  raw["rescale"] = 1.0;
  const std::vector<float> images = Fill(*Make(plain), 0, 1).images;
  const std::vector<float> of_bytes = Fill(*Make(raw), 0, 1).images;
  for (size_t i = 0; i < images.size(); ++i) {
    EXPECT_NEAR(of_bytes[i], ((images[i] * 2 + 0.5) * 255 - 0.5) / 2, 1e-4);
  }
  raw["mean"] = std::vector<double>{127.5};
  EXPECT_NE(Make(raw), nullptr);
  raw.erase("rescale");
  const auto message = MessageOf<SettingError>([&] { Make(raw); });
  ASSERT_TRUE(message);
  EXPECT_THAT(*message, HasSubstr("127.5 is more than the largest pixel, 1;"));
}

// What the folder of the weights says is the default; what the run file says wins.
TEST_F(FolderImages, ArePreparedAsTheWeightsWereByDefault) {
  const ImageSize model = {4, 4, 3};
  const ByteScale bytes = {{{0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}}, 1.0 / 128};
  const SourceKind* const kind = FindSource("images");
  const auto follow = [&](const Given& given, const ImagePreparation& preparation,
                          const std::vector<std::string>& expected) {
    Settings settings;
    settings.Set("folder", folder_.path());
    CompleteSettings(kind->settings, kind->complete, settings);
    for (const auto& [name, value] : given) settings.Set(name, value, "run.yaml:3");
    std::vector<std::string> taken =
        kind->follow(settings, [&]() -> ImagePreparation { return preparation; });
    std::ranges::sort(taken);
    EXPECT_EQ(taken, expected);
    return settings;
  };
  const ImagePreparation middle(Resizing{.shorter_side = 5}, model, bytes, Resampling::kBicubic);
  Settings settings =
      follow({}, middle, {"interpolation", "keep_ratio", "mean", "rescale", "resize", "std"});
  const auto source = kind->make(settings, {.classes = 3, .images = {1, 4, 4, 3}}, 3);
  const ImagePreparation& seen = *source->image_preparation();
  EXPECT_EQ(seen.resizing.shorter_side, 5);
  EXPECT_EQ(seen.filter, Resampling::kBicubic);
  EXPECT_EQ(seen.bytes.rescale, 1.0 / 128);
  EXPECT_EQ(seen.bytes.statistics.mean, bytes.statistics.mean);
  EXPECT_EQ(seen.bytes.statistics.std, bytes.statistics.std);

  settings = follow({{"mean", std::vector<double>{0.4}}, {"resize", int64_t{6}}}, middle,
                    {"interpolation", "keep_ratio", "rescale", "std"});
  EXPECT_EQ(settings.Floats("mean"), std::vector<double>{0.4});
  EXPECT_EQ(settings.Int("resize"), 6);
  // Without the middle, and with that of a square.
  const ImagePreparation square(model, model, bytes);
  const std::vector<std::string> all = {"interpolation", "keep_ratio", "mean",
                                        "rescale",       "resize",     "std"};
  settings = follow({}, square, all);
  EXPECT_FALSE(settings.Bool("keep_ratio"));
  EXPECT_EQ(settings.Int("resize"), 4);
  settings = follow({}, {Resizing{.height = 7, .width = 7}, model, bytes}, all);
  EXPECT_EQ(settings.Int("resize"), 7);
  EXPECT_FALSE(settings.Bool("keep_ratio"));
  // What has no settings: pictures among zeros.
  const ImagePreparation padded(ImageSize{3, 3, 3}, model, bytes);
  const auto message = MessageOf<SettingError>([&] { follow({}, padded, {}); });
  ASSERT_TRUE(message);
  EXPECT_THAT(*message, HasSubstr("give data.resize"));
  follow({{"resize", int64_t{6}}}, padded,
         {"interpolation", "keep_ratio", "mean", "rescale", "std"});
  // Each of the two settings by itself; with both the folder says neither.
  settings = follow({{"resize", int64_t{6}}}, square,
                    {"interpolation", "keep_ratio", "mean", "rescale", "std"});
  EXPECT_FALSE(settings.Bool("keep_ratio"));
  for (const bool keeps : {false, true}) {
    settings = follow({{"keep_ratio", keeps}}, middle,
                      {"interpolation", "mean", "rescale", "resize", "std"});
    EXPECT_EQ(settings.Bool("keep_ratio"), keeps);
    EXPECT_EQ(settings.Int("resize"), 5);
  }
  follow({{"keep_ratio", true}, {"resize", int64_t{6}}}, middle,
         {"interpolation", "mean", "rescale", "std"});
  // No one number gives an oblong canvas.
  const ImageSize oblong = {4, 6, 3};
  settings = follow({}, {oblong, oblong, bytes},
                    {"interpolation", "keep_ratio", "mean", "rescale", "std"});
  EXPECT_FALSE(settings.Bool("keep_ratio"));
  follow({{"keep_ratio", true}}, {oblong, oblong, bytes},
         {"interpolation", "mean", "rescale", "std"});
}

// A folder's file that is refused is not read where the run file says all that it would.
TEST_F(FolderImages, TheRunFileMayTakeTheWholePlaceOfTheWeights) {
  const SourceKind* const kind = FindSource("images");
  const TempFolder mnist;
  WriteIdxFolder(mnist, 2, 1);
  const Given bytes = {{"interpolation", std::string("box")},
                       {"rescale", 1.0},
                       {"mean", std::vector<double>{1}},
                       {"std", std::vector<double>{1}}};
  const auto follow = [&](const std::string& folder, const Given& given) {
    Settings settings;
    settings.Set("folder", folder);
    CompleteSettings(kind->settings, kind->complete, settings);
    for (const auto& values : {bytes, given}) {
      for (const auto& [name, value] : values) settings.Set(name, value, "run.yaml:3");
    }
    return kind->follow(settings, []() -> ImagePreparation { throw UserError("do_pad"); });
  };
  ExpectUserError(
      [&] {
        follow(folder_.path(), {{"resize", int64_t{6}}});
      },
      {"do_pad", "data.resize and data.keep_ratio together take the file's place"});
  EXPECT_EQ(follow(folder_.path(), {{"resize", int64_t{6}}, {"keep_ratio", true}}),
            std::vector<std::string>());
  ExpectUserError([&] { follow(mnist.path(), {}); },
                  {"do_pad", "data.interpolation and data.pad_to together take the file's place"});
  EXPECT_EQ(follow(mnist.path(), {{"pad_to", int64_t{0}}}), std::vector<std::string>());
}

TEST_F(FolderImages, HoldOutWhatValHas) {
  const auto source = Make();
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->samples(), 3);
  EXPECT_TRUE(held_out->pads());
  const Batch batch = Fill(*held_out, 0, 5);
  std::set<int> bytes;
  for (int64_t row = 0; row < 3; ++row) {
    bytes.insert(ByteOf(batch, row));
    EXPECT_EQ(batch.labels[static_cast<size_t>(row)], (ByteOf(batch, row) - 200) % 3);
  }
  EXPECT_EQ(bytes, (std::set<int>{212, 213, 214}));
  EXPECT_EQ(batch.labels[3], -1);
  EXPECT_EQ(batch.images[3 * 48], 0);
  EXPECT_EQ(source->HeldOut(2)->samples(), 2);
  fs::remove_all(folder_ / "val");
  EXPECT_EQ(Make()->HeldOut(0), nullptr);
  EXPECT_EQ(Make({{"eval_fraction", 0.25}})->HeldOut(0)->samples(), 3);
}

TEST_F(FolderImages, AreNormalisedAsImageNetUnlessToldOtherwise) {
  const auto normalised = [&](int64_t channels) {
    const SourceKind* const kind = FindSource("images");
    Settings settings;
    settings.Set("folder", folder_.path());
    CompleteSettings(kind->settings, kind->complete, settings);
    return kind->make(settings, {.classes = 3, .images = {1, 4, 4, channels}}, 3)
        ->image_preparation()
        ->bytes.statistics;
  };
  EXPECT_EQ(normalised(3).mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_EQ(normalised(3).std, (std::vector<double>{0.229, 0.224, 0.225}));
  EXPECT_EQ(normalised(1).mean, std::vector<double>{0.449});
  // Colours for a model that reads grey.
  const Batch grey = Fill(*Make({}, {1, 4, 4, 1}), 0, 12, {1, 4, 4, 1});
  for (size_t row = 0; row < 12; ++row) {
    const auto byte = static_cast<int>(std::lround(grey.images[16 * row] * 255));
    EXPECT_EQ(byte / 10 % 3, grey.labels[row]);
  }
}

TEST_F(FolderImages, ThatCannotBeReadEndTheRun) {
  const std::string path = Write("train/a", 0, {});
  ExpectUserError([&] { Fill(*Make(), 0, 12); },
                  {"data.folder: " + path, "neither a JPEG nor a PNG", "data.unreadable: skip"});
}

TEST_F(FolderImages, AreNotReadWhereTheFileIsTooLarge) {
  const std::string path = Write("train/a", 0, formats::EncodePng(1, 1, std::vector<uint8_t>{7}));
  fs::resize_file(path, 65 << 20);  // takes no room on the disk
  ExpectUserError(
      [&] {
        Fill(*Make({{"most_pixels", int64_t{1000}}}), 0, 12);
      },
      {path, "are more than an image of 1000 pixels has"});
}

TEST_F(FolderImages, ThatCannotBeReadLeaveTheirPlaceToTheNext) {
  // Truncated, and by its header too large.
  const std::vector<uint8_t> jpeg = formats::EncodeJpeg(20, 20, std::vector<uint8_t>(400, 9), 90);
  const std::string first = Write("train/a", 0, {jpeg.begin(), jpeg.begin() + 200});
  Write("train/c", 11, formats::EncodePng(40, 40, std::vector<uint8_t>(1600, 9)));
  const Given skip = {{"unreadable", std::string("skip")}, {"most_pixels", int64_t{500}}};
  const auto source = Make(skip);
  EXPECT_EQ(source->Unread(), "");
  const Batch batch = Fill(*source, 0, 12);
  std::map<int, int> seen;
  for (int64_t row = 0; row < 12; ++row) {
    const int byte = ByteOf(batch, row);
    ++seen[byte];
    EXPECT_EQ(batch.labels[static_cast<size_t>(row)], byte / 10 % 3);
  }
  // Image 3 is the next of class a; behind the last one of c comes the first, and then image 3.
  EXPECT_EQ(seen, (std::map<int, int>{{10, 1},
                                      {20, 1},
                                      {30, 3},
                                      {40, 1},
                                      {50, 1},
                                      {60, 1},
                                      {70, 1},
                                      {80, 1},
                                      {90, 1},
                                      {100, 1}}));
  EXPECT_THAT(source->Unread(), HasSubstr("2 images could not be read"));
  Fill(*source, 12, 24);
  EXPECT_THAT(source->Unread(), HasSubstr("2 images"));
  EXPECT_EQ(Fill(*Make(skip), 0, 12), batch);
  const auto ahead = Make(skip);
  Prefetcher prefetcher(*ahead, 3, [](int64_t number) { return 4 * number; });
  for (int64_t number = 0; number < 3; ++number) {
    Batch part;
    prefetcher.Fill(number, part.Slots(4, {1, 4, 4, 3}));
    EXPECT_TRUE(std::ranges::equal(
        part.labels, std::span(batch.labels).subspan(static_cast<size_t>(4 * number), 4)));
    EXPECT_TRUE(
        std::equal(part.images.begin(), part.images.end(), batch.images.begin() + 4 * 48 * number));
  }
  // The labels alone are those of the images.
  std::vector<int32_t> labels(12);
  Make(skip)->Fill(
      0, std::vector<graph::Slot>{
             {"labels", {graph::DType::kInt32, {12}}, std::as_writable_bytes(std::span(labels))}});
  EXPECT_EQ(labels, batch.labels);

  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "train")) {
    if (entry.is_regular_file()) WriteFile(entry.path(), "no image");
  }
  ExpectUserError([&] { Fill(*Make(skip), 0, 1); }, {"and the 11 images after it cannot be read"});
}

// A folder of one JPEG file of a kind.
class JpegImages : public FolderImages {
 protected:
  static constexpr int64_t kRows = 150, kColumns = 200;

  JpegImages() {
    for (const char* part : {"train", "val"}) fs::remove_all(folder_ / part);
    for (const char* part : {"train/a", "val/a"}) fs::create_directories(folder_ / part);
  }
  void WriteBoth(const std::vector<uint8_t>& file) const {
    for (const char* part : {"train/a/1.jpg", "val/a/1.jpg"}) folder_.Write(part, Text(file));
  }
  // The images of a folder whose model sees `shape`.
  static std::vector<float> Seen(const Source& source, int64_t sample, const graph::Shape& shape) {
    return Fill(source, sample, 1, shape).images;
  }
};

// Each sample is what the whole picture's pixels give: crops to train on, and the middle of those
// held out.
TEST_F(JpegImages, AreWhatTheWholePicturesGive) {
  const graph::Shape shape = {1, 20, 24, 3}, grey_shape = {1, 20, 24, 1};
  int orientation = 0;
  for (const formats::JpegKind& kind : formats::JpegKinds()) {
    const std::vector<uint8_t> file =
        formats::WriteJpeg(kind, kRows, kColumns, 1, 1 + orientation++ % 8);
    WriteBoth(file);
    const formats::Raster whole = formats::DecodeJpeg(file, "whole", kRows * kColumns);
    for (const graph::Shape& seen_shape : {shape, grey_shape}) {
      const int64_t channels = seen_shape.dim(3);
      const ImageSize size = {whole.height, whole.width, channels};
      const std::vector<uint8_t> pixels =
          WithChannels(whole.pixels, {size.height, size.width, whole.channels}, channels);
      const auto source = Make({}, seen_shape);
      const ImagePreparation& seen = *source->image_preparation();
      std::vector<float> expected(static_cast<size_t>(seen_shape.elements()));
      seen.DrawPicture(pixels, size, expected);
      EXPECT_EQ(Seen(*source->HeldOut(0), 0, seen_shape), expected) << kind.name;
      // The crop is the only one of this area and ratio.
      const auto all = Make({{"crop_scale", std::vector<double>{1, 1}},
                             {"crop_ratio", std::vector<double>{1.2, 1.2}}},
                            seen_shape);
      SampleRandom random(1, 1, 1);
      const ImageBox box = ResizedCrop{.scale = {1, 1}, .ratio = {1.2, 1.2}}.Draw(size, random);
      seen.Draw(Resized(pixels, size, box, 20, 24), expected);
      EXPECT_EQ(Seen(*all, 0, seen_shape), expected) << kind.name;
    }
  }
}

// Where crops are much larger than what the model sees; held-out images stay exact.
TEST_F(JpegImages, MayBeDecodedFast) {
  const graph::Shape shape = {1, 20, 24, 3};
  const formats::JpegKind kind = {.name = "4:2:0", .across = 2, .down = 2};
  WriteBoth(formats::WriteJpeg(kind, kRows, kColumns, 1, 6));
  const auto exact = Make({}, shape), fast = Make({{"decode", std::string("fast")}}, shape);
  EXPECT_EQ(Seen(*fast->HeldOut(0), 0, shape), Seen(*exact->HeldOut(0), 0, shape));
  EXPECT_THAT(fast->Describe({}), HasSubstr("\n  decoded fast"));
  EXPECT_THAT(exact->Describe({}), Not(HasSubstr("decoded fast")));
  for (int64_t sample = 0; sample < 8; ++sample) {
    const std::vector<float> pixels = Seen(*exact, sample, shape),
                             near = Seen(*fast, sample, shape);
    EXPECT_NE(pixels, near);
    EXPECT_EQ(near, Seen(*fast, sample, shape));
    double difference = 0;
    for (size_t i = 0; i < pixels.size(); ++i) difference += std::abs(pixels[i] - near[i]);
    EXPECT_LT(difference * 255, 8 * static_cast<double>(pixels.size()));
  }
  // PNG files have one way.
  fs::remove(folder_ / "train/a/1.jpg");
  std::vector<uint8_t> pixels;
  for (int i = 0; i < kRows * kColumns * 3; ++i) pixels.push_back(static_cast<uint8_t>(i * 7));
  Write("train/a", 1, formats::EncodePng(kColumns, kRows, pixels));
  EXPECT_EQ(Fill(*Make({{"decode", std::string("fast")}}, shape), 0, 8, shape),
            Fill(*Make({}, shape), 0, 8, shape));
}

// Damage is met by samples whose rows reach down to it, and the same ones read the labels alone.
TEST_F(JpegImages, AreDamagedForTheSamplesThatReachIt) {
  std::vector<uint8_t> file = formats::WriteJpeg({}, kRows, kColumns, 1);
  fs::remove_all(folder_ / "val");
  fs::create_directories(folder_ / "train/b");
  folder_.Write("train/b/1.jpg", Text(file));
  file.insert(file.begin() + std::ssize(file) * 3 / 4, {0xff, 0xd9});
  folder_.Write("train/a/1.jpg", Text(file));
  const Given skip = {{"unreadable", std::string("skip")},
                      {"crop_scale", std::vector<double>{0.05, 0.1}}};
  const auto source = Make(skip);
  const Batch batch = Fill(*source, 0, 40);
  const auto first_class = std::ranges::count(batch.labels, 0);
  EXPECT_GT(first_class, 8);
  EXPECT_LT(first_class, 20);
  EXPECT_THAT(source->Unread(), HasSubstr("1 image could not be read"));
  EXPECT_EQ(Fill(*Make(skip), 0, 40), batch);
  std::vector<int32_t> labels(40);
  Make(skip)->Fill(
      0, std::vector<graph::Slot>{
             {"labels", {graph::DType::kInt32, {40}}, std::as_writable_bytes(std::span(labels))}});
  EXPECT_EQ(labels, batch.labels);
  // A file without its end is read by none.
  file.resize(file.size() - 2);
  file.erase(file.begin() + std::ssize(file) * 2 / 3, file.end());
  folder_.Write("train/a/1.jpg", Text(file));
  EXPECT_EQ(std::ranges::count(Fill(*Make(skip), 0, 40).labels, 0), 0);
}

TEST_F(FolderImages, RefuseSettingsThatDoNotSuit) {
  EXPECT_THAT(RefusalOf("resize", {{"resize", int64_t{3}}}),
              HasSubstr("the crop that the model sees, 4 × 4 × 3, is larger than an image"));
  EXPECT_THAT(RefusalOf("pad_to", {{"pad_to", int64_t{8}}}), HasSubstr("for images of one size"));
  EXPECT_THAT(RefusalOf("crop_scale", {{"crop_scale", std::vector<double>{0.9, 0.1}}}),
              HasSubstr("give two numbers, from and to, such as [0.08, 1]"));
  EXPECT_THAT(RefusalOf("crop_ratio", {{"crop_ratio", std::vector<double>{1, 2}},
                                       {"random_resized_crop", false}}),
              HasSubstr("data.random_resized_crop is false"));
  EXPECT_THAT(RefusalOf("folder", {}, {1, 4, 4, 2}), HasSubstr("images of 2 channels"));
  EXPECT_THAT(RefusalOf("class_names", {{"class_names", std::vector<std::string>{"x", "y"}}}),
              HasSubstr("2 names for a model that distinguishes 3 classes"));
  EXPECT_EQ(Make({{"class_names", std::vector<std::string>{"x", "y", "z"}}})->class_names()[0],
            "x");
  ExpectUserError([&] { Make({}, {}); }, {"the model reads none"});
  ExpectUserError([&] { Make()->CheckBound("labels", 2); },
                  {"has 3 folders of classes, of which 'c' is number 2", "set model.classes: 3"});
  Make()->CheckBound("labels", 3);
  fs::create_directories(folder_ / "val/d");
  EXPECT_THAT(RefusalOf("folder", {}), HasSubstr("unknown class"));
}

TEST_F(FolderImages, MayBeListedWithTheirClass) {
  const auto labels = [&] {
    const Batch batch = Fill(*Make(), 0, 12);
    std::map<int, int32_t> of_byte;
    for (int64_t row = 0; row < 12; ++row) {
      of_byte[ByteOf(batch, row)] = batch.labels[static_cast<size_t>(row)];
    }
    return of_byte;
  };
  const auto list = [&](const std::string& member) {
    for (int part = 0; part < 2; ++part) {
      std::string lines;
      for (int i = 12 * part; i < 12 + 3 * part; ++i) {
        lines += "{\"file_name\": \"" + std::string(1, static_cast<char>('a' + i % 3)) + "/" +
                 std::to_string(100 + i) + ".png\", \"" + member + "\": \"" +
                 (i % 2 == 0 ? "even" : "odd") + "\"}\n";
      }
      folder_.Write(part == 0 ? "train/metadata.jsonl" : "val/metadata.jsonl", lines);
    }
  };
  const std::map<int, int32_t> by_folder = labels();
  list("caption");  // which is no label
  EXPECT_EQ(labels(), by_folder);
  EXPECT_EQ(Make()->class_names(), (std::vector<std::string>{"a", "b", "c"}));
  list("label");
  const auto source = Make();
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"even", "odd"}));
  for (const auto& [byte, label] : labels()) EXPECT_EQ(label, byte / 10 % 2) << byte;
  const Batch held_out = Fill(*source->HeldOut(0), 0, 3);
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(held_out.labels[static_cast<size_t>(row)], ByteOf(held_out, row) % 2);
  }
}

// Of a model of several labels; those who know one class of each image have none for it.
TEST_F(FolderImages, MayBeListedWithSeveralLabels) {
  const auto make = [&] {
    Settings settings;
    settings.Set("folder", folder_.path());
    const SourceKind* const kind = FindSource("images");
    CompleteSettings(kind->settings, kind->complete, settings);
    return kind->make(settings, {.classes = 2, .label_values = {1, 2}, .images = {1, 4, 4, 3}}, 3);
  };
  Batch batch;
  std::vector<float> values(6);
  std::vector<graph::Slot> slots = batch.Slots(3, {1, 4, 4, 3});
  slots.back() = {
      "label_values", {graph::DType::kFloat32, {3, 2}}, std::as_writable_bytes(std::span(values))};
  ExpectUserError([&] { make()->Fill(0, slots); },
                  {"images are of one class each", "metadata.jsonl",
                   "model.problem_type: single_label_classification"});

  std::string lines;
  for (int i = 0; i < 12; ++i) {
    const std::string name = std::string(1, static_cast<char>('a' + i % 3)) + "/";
    lines += "{\"file_name\": \"" + name + std::to_string(100 + i) + ".png\", \"labels\": [" +
             (i % 3 == 0 ? "\"x\", \"y\"" : "\"y\"") + "]}\n";
  }
  folder_.Write("train/metadata.jsonl", lines);
  folder_.Write("val/metadata.jsonl", "{\"file_name\": \"a/112.png\", \"label\": [\"x\"]}");
  const auto source = make();
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_THAT(source->Describe({.samples_per_step = 1, .samples = 12}),
              HasSubstr("12 JPEG or PNG files with any of 2 classes (x, y)"));
  int both = 0;
  for (int64_t first = 0; first < 12; first += 3) {
    source->Fill(first, slots);
    for (size_t row = 0; row < 3; ++row) {
      both += values[2 * row] == 1;
      EXPECT_EQ(values[2 * row + 1], 1);
    }
  }
  EXPECT_EQ(both, 4);
  source->HeldOut(0)->Fill(0, slots);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 0);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(values[i])) << i;  // padding
}

}  // namespace
}  // namespace plimsoll::data
