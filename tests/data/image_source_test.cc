// The source "images", by the interface that training has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/held_out_batches.h"
#include "data/source.h"
#include "tests/data/image_folders.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSeed = 11;

struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  bool operator==(const Batch&) const = default;
};

graph::Slot ImageSlot(const graph::Shape& shape, std::vector<float>& values) {
  values.assign(static_cast<size_t>(shape.elements()), NAN);
  return {"images", {graph::DType::kFloat32, shape}, std::as_writable_bytes(std::span(values))};
}

graph::Slot LabelSlot(int64_t rows, std::vector<int32_t>& values) {
  values.assign(static_cast<size_t>(rows), -7);
  return {"labels", {graph::DType::kInt32, {rows}}, std::as_writable_bytes(std::span(values))};
}

// 12 images of 3 × 4 pixels for training, 5 for tests.
class ImageSource : public testing::Test {
 protected:
  ImageSource() { WriteIdxFolder(folder_, 12, 5); }

  // With the defaults of what is not given.
  std::unique_ptr<Source> Make(const std::map<std::string, SettingValue>& given = {},
                               uint64_t seed = kSeed, const std::string& folder = "",
                               const ModelSizes& model = {}) const {
    const SourceKind* const kind = FindSource("images");
    Settings settings;
    settings.Set("folder", folder.empty() ? folder_.path() : folder);
    for (const auto& [name, value] : given) settings.Set(name, value);
    CompleteSettings(kind->settings, kind->complete, settings);
    return kind->make(settings, model, seed);
  }
  // Bytes over 255.
  std::unique_ptr<Source> MakePlain(std::map<std::string, SettingValue> given = {},
                                    uint64_t seed = kSeed) const {
    given["mean"] = std::vector<double>{0};
    given["std"] = std::vector<double>{1};
    return Make(given, seed);
  }

  static Batch Fill(const Source& source, int64_t first, int64_t rows, graph::Shape shape) {
    Batch batch;
    const std::vector<graph::Slot> slots = {ImageSlot(shape, batch.images),
                                            LabelSlot(rows, batch.labels)};
    source.Fill(first, slots);
    return batch;
  }
  static Batch Fill(const Source& source, int64_t first, int64_t rows) {
    return Fill(source, first, rows, {rows, 3, 4, 1});
  }
  // The number of a row's image for training, which its first pixel says.
  static int ImageOf(const Batch& batch, int64_t row) {
    return static_cast<int>(std::lround(batch.images[static_cast<size_t>(row * 12)] * 255)) / 12;
  }

  const TempFolder folder_;
};

TEST_F(ImageSource, ReadsEachImageOnceAnEpoch) {
  const auto source = MakePlain();
  std::set<std::vector<int>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const Batch batch = Fill(*source, 12 * epoch, 12);
    std::vector<int> order;
    for (int64_t row = 0; row < 12; ++row) {
      const int image = ImageOf(batch, row);
      order.push_back(image);
      EXPECT_EQ(batch.labels[static_cast<size_t>(row)], image % 10);
      for (int pixel = 0; pixel < 12; ++pixel) {
        EXPECT_EQ(batch.images[static_cast<size_t>(12 * row + pixel)],
                  static_cast<float>(12 * image + pixel) / 255.0f);
      }
    }
    orders.insert(order);
    std::ranges::sort(order);
    for (int image = 0; image < 12; ++image) EXPECT_EQ(order[static_cast<size_t>(image)], image);
  }
  EXPECT_EQ(orders.size(), 5u);
  EXPECT_NE(Fill(*source, 0, 12), Fill(*MakePlain({}, kSeed + 1), 0, 12));
}

// Rows with both labels and the first one's weight.
struct Mixed {
  std::vector<float> images, weights;
  std::vector<int32_t> labels, second;

  void Fill(const Source& source, int64_t first, int64_t rows) {
    std::vector<graph::Slot> slots = {ImageSlot({rows, 3, 4, 1}, images), LabelSlot(rows, labels),
                                      LabelSlot(rows, second)};
    slots[2].name = "labels_b";
    weights.assign(static_cast<size_t>(rows), NAN);
    slots.push_back({"label_weight",
                     {graph::DType::kFloat32, {rows}},
                     std::as_writable_bytes(std::span(weights))});
    source.Fill(first, slots);
  }
};

TEST_F(ImageSource, MixesImagesAndTheirLabels) {
  const auto plain = MakePlain(), mixing = MakePlain({{"mixup", 1.0}});
  const Batch own = Fill(*plain, 0, 120);
  Mixed mixed;
  mixed.Fill(*mixing, 0, 120);
  EXPECT_EQ(mixed.labels, own.labels);
  int others = 0;
  for (size_t row = 0; row < 120; ++row) {
    const float share = mixed.weights[row];
    ASSERT_TRUE(share >= 0 && share <= 1);
    others += mixed.second[row] != mixed.labels[row];
    // Image i has the bytes 12 i, 12 i + 1, …; label 0 is that of images 0 and 10, 1 of 1 and 11.
    bool fits = false;
    for (int image = mixed.second[row]; image < 12; image += 10) {
      const float expected = share * own.images[12 * row + 5] +
                             (1 - share) * static_cast<float>(12 * image + 5) / 255.0f;
      fits |= std::abs(mixed.images[12 * row + 5] - expected) < 1e-6f;
    }
    EXPECT_TRUE(fits) << row;
  }
  EXPECT_GT(others, 60);
  // Samples depend on nothing but their numbers.
  for (const int64_t row : {0, 7, 119}) {
    Mixed one;
    one.Fill(*mixing, row, 1);
    EXPECT_EQ(one.second[0], mixed.second[static_cast<size_t>(row)]);
    EXPECT_EQ(one.weights[0], mixed.weights[static_cast<size_t>(row)]);
    EXPECT_TRUE(std::equal(one.images.begin(), one.images.end(), mixed.images.begin() + 12 * row));
  }
}

TEST_F(ImageSource, WithoutMixingTheSecondLabelIsTheFirst) {
  Mixed rows;
  rows.Fill(*MakePlain(), 0, 24);
  EXPECT_EQ(rows.second, rows.labels);
  EXPECT_EQ(rows.weights, std::vector<float>(24, 1));
}

TEST_F(ImageSource, MixingNeedsALossOfTwoLabels) {
  const auto source = MakePlain({{"cutmix", 1.0}});
  ExpectUserError([&] { Fill(*source, 0, 4); }, {"data.mixup and data.cutmix give images two"});
}

TEST_F(ImageSource, FillsASampleTheSameHoweverSamplesAreSplit) {
  const auto source = MakePlain({{"crop_padding", int64_t{2}},
                                 {"flip", true},
                                 {"randaugment", int64_t{2}},
                                 {"erasing", 0.5}});
  const Batch whole = Fill(*source, 0, 48);
  for (const int64_t rows : {1, 2, 3, 8, 16}) {
    Batch pieces;
    for (int64_t first = 0; first < 48; first += rows) {
      const Batch piece = Fill(*source, first, rows);
      pieces.images.insert(pieces.images.end(), piece.images.begin(), piece.images.end());
      pieces.labels.insert(pieces.labels.end(), piece.labels.begin(), piece.labels.end());
    }
    EXPECT_EQ(pieces, whole) << rows;
  }
  // Each input alone, too.
  std::vector<int32_t> labels;
  source->Fill(0, std::vector<graph::Slot>{LabelSlot(48, labels)});
  EXPECT_EQ(labels, whole.labels);
  std::vector<float> images;
  source->Fill(0, std::vector<graph::Slot>{ImageSlot({48, 3, 4, 1}, images)});
  EXPECT_EQ(images, whole.images);
  EXPECT_EQ(source->CountTargets("", 5, 7), 7);
}

TEST_F(ImageSource, AugmentsASampleAnewInEachEpochButNoTest) {
  const auto plain = MakePlain(),
             changed = MakePlain({{"crop_padding", int64_t{1}}, {"flip", true}});
  std::set<std::vector<float>> versions;  // of image 0
  for (int64_t sample = 0; sample < 12 * 100; ++sample) {
    if (ImageOf(Fill(*plain, sample, 1), 0) != 0) continue;
    versions.insert(Fill(*changed, sample, 1).images);
  }
  EXPECT_GT(versions.size(), 14u);  // of 3 · 3 · 2
  EXPECT_EQ(Fill(*plain->HeldOut(0), 0, 5), Fill(*changed->HeldOut(0), 0, 5));
}

TEST_F(ImageSource, HoldsOutTheTestImagesInTheirOrder) {
  const auto source = Make({{"mean", std::vector<double>{0.5}}, {"std", std::vector<double>{0.5}}});
  EXPECT_TRUE(FindSource("images")->holds_out({}));
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->samples(), 5);
  EXPECT_TRUE(held_out->pads());
  EXPECT_EQ(source->HeldOut(3)->samples(), 3);
  EXPECT_EQ(source->HeldOut(300)->samples(), 5);
  EXPECT_EQ(source->samples(), std::nullopt);
  EXPECT_FALSE(source->pads());

  const Batch batch = Fill(*held_out, 2, 8);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{2, 3, 4, -1, -1, -1, -1, -1}));
  for (size_t i = 0; i < batch.images.size(); ++i) {
    const auto byte = static_cast<uint8_t>(255 - (24 + i));
    EXPECT_EQ(batch.images[i], i < 36 ? (static_cast<float>(byte) / 255.0f - 0.5f) / 0.5f : 0.0f);
  }
  EXPECT_EQ(held_out->CountTargets("", 0, 5), 5);
  EXPECT_EQ(held_out->CountTargets("", 2, 8), 3);
  EXPECT_EQ(held_out->CountTargets("", 9, 8), 0);

  for (const int64_t ranks : {1, 2}) {
    std::vector<int32_t> labels;
    const int64_t rows = 4 / ranks;
    for (int64_t index = 0; index < 2; ++index) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const HeldOutBatches batches(source->HeldOut(0), rows, rank, ranks);
        ASSERT_EQ(batches.count(), 2);
        EXPECT_EQ(batches.CountTargets(), 5);
        Batch part;
        const std::vector<graph::Slot> slots = {ImageSlot({rows, 3, 4, 1}, part.images),
                                                LabelSlot(rows, part.labels)};
        batches.Fill(index, slots);
        labels.insert(labels.end(), part.labels.begin(), part.labels.end());
      }
    }
    EXPECT_EQ(labels, (std::vector<int32_t>{0, 1, 2, 3, 4, -1, -1, -1}));
  }
}

// Threads that prepare the next ones change nothing, in whatever order batches are asked for.
TEST_F(ImageSource, HoldsOutTheSameByAnyNumberOfWorkers) {
  const auto source = Make();
  const auto read = [&](const HeldOutBatches& batches, int64_t index) {
    Batch part;
    batches.Fill(index, std::vector<graph::Slot>{ImageSlot({2, 3, 4, 1}, part.images),
                                                 LabelSlot(2, part.labels)});
    return part;
  };
  const HeldOutBatches plain(source->HeldOut(0), 2);
  for (const int64_t workers : {1, 4}) {
    const HeldOutBatches ahead(source->HeldOut(0), 2, 0, 1, workers);
    for (const int64_t index : {0, 1, 2, 0, 1, 0, 2, 1}) {
      EXPECT_EQ(read(ahead, index), read(plain, index)) << workers << " " << index;
    }
  }
}

TEST_F(ImageSource, PadsAndNormalises) {
  const auto source = Make({{"pad_to", int64_t{6}},
                            {"mean", std::vector<double>{0.25}},
                            {"std", std::vector<double>{0.5}}});
  const Batch batch = Fill(*source->HeldOut(0), 0, 1, {1, 6, 6, 1});
  for (size_t y = 0; y < 6; ++y) {
    for (size_t x = 0; x < 6; ++x) {
      const bool inside = y >= 1 && y < 4 && x >= 1 && x < 5;
      const auto byte = inside ? static_cast<float>(255 - ((y - 1) * 4 + x - 1)) : 0.0f;
      EXPECT_EQ(batch.images[6 * y + x], (byte / 255.0f - 0.25f) / 0.5f);
    }
  }
}

TEST_F(ImageSource, RefusesSettingsOfFoldersByClass) {
  const std::map<std::string, SettingValue> settings = {{"resize", int64_t{8}},
                                                        {"random_resized_crop", true},
                                                        {"crop_scale", std::vector<double>{0.5, 1}},
                                                        {"crop_ratio", std::vector<double>{1, 1}},
                                                        {"eval_fraction", 0.5},
                                                        {"most_pixels", int64_t{100}},
                                                        {"decode", std::string("fast")},
                                                        {"unreadable", std::string("skip")}};
  for (const auto& setting : settings) {
    EXPECT_THAT(SettingErrorOf(setting.first, [&] { Make({setting}); }),
                HasSubstr("is for folders of JPEG and PNG files"));
  }
}

TEST_F(ImageSource, ChangesColours) {
  const auto plain = MakePlain(), changed = MakePlain({{"brightness", 0.5}});
  const Batch before = Fill(*plain, 0, 12), after = Fill(*changed, 0, 12);
  for (size_t i = 0; i < before.images.size(); ++i) {
    EXPECT_GE(after.images[i], 0.5f * before.images[i] - 1.0f / 255);  // rounded down to bytes
    EXPECT_LE(after.images[i], 1.5f * before.images[i]);
  }
  EXPECT_NE(before.images, after.images);
  EXPECT_EQ(before.labels, after.labels);
}

// By default an epoch has mean 0 and standard deviation 1.
TEST_F(ImageSource, MeasuresMeanAndStd) {
  const auto source = Make();
  double sum = 0, squares = 0;
  for (const float value : Fill(*source, 0, 12).images) {
    sum += value;
    squares += double{value} * value;
  }
  EXPECT_NEAR(sum / 144, 0, 1e-6);
  EXPECT_NEAR(squares / 144, 1, 1e-6);
  // Bytes 0 … 143.
  EXPECT_THAT(source->Describe({}), HasSubstr("mean 0.2804, std 0.163\n"));
  EXPECT_THAT(Make({{"std", std::vector<double>{2}}})->Describe({}), HasSubstr("0.2804, std 2\n"));
}

TEST_F(ImageSource, HasColours) {
  const TempFolder cifar;
  WriteCifarFolder(cifar);
  const auto source =
      Make({{"mean", std::vector<double>{0, 0.5, 1}}, {"std", std::vector<double>{1, 0.5, 0.25}}},
           kSeed, cifar.path());
  const Batch batch = Fill(*source->HeldOut(0), 0, 1, {1, 32, 32, 3});
  EXPECT_EQ(batch.labels[0], 7);
  EXPECT_EQ(batch.images[3], 2 / 255.0f);
  EXPECT_EQ(batch.images[4], (3 / 255.0f - 0.5f) / 0.5f);
  EXPECT_EQ(batch.images[5], (4 / 255.0f - 1.0f) / 0.25f);
  EXPECT_THAT(source->Describe({}), HasSubstr("10 images of 32 × 32 × 3 in 10 classes"));
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{10});
  ExpectUserError(
      [&] {
        Fill(*source, 0, 1, {1, 32, 32, 1});
      },
      {"'images'", "f32[1,32,32,1]", "32 × 32 × 3", "3 channels", "data.folder"});
}

TEST_F(ImageSource, DescribesItself) {
  EXPECT_EQ(MakePlain()->Describe({.samples_per_step = 8, .samples = 30}),
            "data: 12 images of 3 × 4 × 1 in 10 classes to train on, 8 per step, 2.5 epochs\n"
            "  mean 0, std 1\n");
  EXPECT_EQ(
      MakePlain({{"pad_to", int64_t{8}}, {"crop_padding", int64_t{2}}, {"flip", true}})
          ->Describe(
              {.samples_per_step = 8, .samples = 12, .held_out_targets = 5, .eval_every = 2}),
      "data: 12 images of 3 × 4 × 1 in 10 classes to train on, 8 per step, 1.0 epochs, 5 held-out "
      "images evaluated every 2 steps\n"
      "  padded to 8 × 8 × 1\n"
      "  cropped at random out of 2 pixels of padding\n"
      "  flipped with probability 1/2\n"
      "  mean 0, std 1\n");
  EXPECT_EQ(MakePlain()->sizes(), std::vector<int64_t>{12});
}

TEST_F(ImageSource, HasANameForEachClassOrNone) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(Make()->class_names(), Names());
  const Names names = {"shirt", "coat", "bag"};
  const auto make = [&](int64_t classes) {
    return Make({{"class_names", names}}, kSeed, "", {.classes = classes});
  };
  EXPECT_EQ(make(3)->class_names(), names);
  EXPECT_EQ(make(0)->class_names(), names);  // the model says no number
  for (const int64_t classes : {2, 10}) {
    EXPECT_THAT(SettingErrorOf("class_names", [&] { make(classes); }),
                HasSubstr("3 names for a model that distinguishes " + std::to_string(classes)));
  }
}

TEST_F(ImageSource, RefusesInputsThatItCannotFill) {
  const auto source = Make();
  ExpectUserError(
      [&] {
        Fill(*source, 0, 1, {1, 8, 8, 1});
      },
      {"'images'", "f32[1,8,8,1]", "3 × 4 × 1", "data.pad_to: 8"});
  ExpectUserError([&] { Fill(*source, 0, 1, {1, 2, 4, 1}); }, {"f32[1,2,4,1]", "3 × 4 × 1"});
  ExpectUserError([&] { Fill(*source, 0, 1, {1, 3, 4, 3}); }, {"f32[1,3,4,3]", "1 channel,"});
  ExpectUserError([&] { Fill(*source, 0, 1, {1, 12}); }, {"f32[1,12]", "3 × 4 × 1"});
  const auto padded = Make({{"pad_to", int64_t{8}}});
  ExpectUserError(
      [&] {
        Fill(*padded->HeldOut(0), 0, 1, {1, 6, 6, 1});
      },
      {"f32[1,6,6,1]", "8 × 8 × 1", "3 × 4 × 1", "data.pad_to: 6"});
  std::vector<int32_t> values(4);
  for (const char* name : {"tokens", "images"}) {
    const graph::Slot slot = {
        name, {graph::DType::kInt32, {4}}, std::as_writable_bytes(std::span(values))};
    ExpectUserError([&] { source->Fill(0, std::vector<graph::Slot>{slot}); },
                    {std::string("'") + name + "', i32[4]", "images f32", "labels i32"});
  }
}

TEST_F(ImageSource, NamesTheSettingThatIsWrong) {
  const auto expect = [&](const std::map<std::string, SettingValue>& given, const char* name,
                          const char* reason) {
    const std::string said = SettingErrorOf(name, [&] { Make(given); });
    EXPECT_THAT(said, HasSubstr(reason));
    EXPECT_THAT(said, Not(HasSubstr("\n")));
  };
  expect({{"folder", folder_ / "nowhere"}}, "folder", "nowhere: there is no such folder");
  expect({{"pad_to", int64_t{3}}}, "pad_to", "3 is less than the images have, 3 × 4 × 1; give 4");
  expect({{"crop_padding", int64_t{3}}}, "crop_padding", "give less than 3");
  expect({{"mean", std::vector<double>{0.1, 0.2}}}, "mean", "2 numbers for images with 1 channel");
  expect({{"std", std::vector<double>{}}}, "std", "0 numbers for images with 1 channel");
  folder_.Write("train-images-idx3-ubyte", Idx({12, 3, 4}, std::string(144, 'x')));
  expect({}, "std", "all pixels of a channel are equal");

  Settings settings;
  const std::vector<Setting>& rows = FindSource("images")->settings;
  EXPECT_THROW(CompleteSettings(rows, {}, settings), MissingSetting);
}

TEST_F(ImageSource, NamesTheFirstLabelBeyondABound) {
  Make()->CheckBound("labels", 10);
  Make()->CheckBound("images", 1);  // has no such numbers
  ExpectUserError([&] { Make()->CheckBound("labels", 9); },
                  {"train-labels-idx1-ubyte: image 9 has label 9", "9 classes, 0 to 8"});
  const TempFolder cifar;
  WriteCifarFolder(cifar);
  const auto source = Make({}, kSeed, cifar.path());
  source->CheckBound("labels", 10);
  ExpectUserError([&] { source->CheckBound("labels", 7); },
                  {"data_batch_4.bin: image 1 has label 7"});
}

TEST_F(ImageSource, FillsWithoutAllocatingAndFromManyThreads) {
  const auto source = Make({{"pad_to", int64_t{8}}, {"crop_padding", int64_t{2}}, {"flip", true}});
  const auto held_out = source->HeldOut(0);
  const Batch expected = Fill(*source, 0, 64, {64, 8, 8, 1});
  Batch batch;
  const std::vector<graph::Slot> slots = {ImageSlot({64, 8, 8, 1}, batch.images),
                                          LabelSlot(64, batch.labels)};
  EXPECT_EQ(CountAllocations([&] { held_out->Fill(0, slots); }), 0);
  EXPECT_EQ(CountAllocations([&] { source->Fill(0, slots); }), 0);
  EXPECT_EQ(batch, expected);

  std::vector<Batch> batches(4);
  std::vector<std::thread> threads;
  for (Batch& own : batches) {
    threads.emplace_back([&] { own = Fill(*source, 0, 64, {64, 8, 8, 1}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Batch& own : batches) EXPECT_EQ(own, expected);
}

// A key of the section `data` is one for all sources, and has one type.
TEST(Sources, HaveSettingsOfOneTypeByTheirNames) {
  std::map<std::string, Setting::Type> types;
  for (const SourceKind& kind : Sources()) {
    for (const Setting& setting : kind.settings) {
      const auto [known, added] = types.emplace(setting.name, setting.type);
      EXPECT_EQ(known->second, setting.type) << kind.name << " " << setting.name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::data
