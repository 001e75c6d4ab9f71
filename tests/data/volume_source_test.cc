// The source "volumes", by the interface that training has.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/held_out_batches.h"
#include "formats/nifti.h"
#include "tests/data/volume_batches.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Given = std::map<std::string, SettingValue>;

// 4 volumes of 4 × 6 × 8 voxels for training, 2 for tests. Voxel i of volume v has the intensity
// 1000 v + i, and the label 2 where i is 100, otherwise 0; volume 3 has 1 there.
class VolumeSource : public testing::Test {
 protected:
  static constexpr int64_t kVoxels = 4 * 6 * 8;

  VolumeSource() {
    for (const char* part : {"imagesTr", "labelsTr", "imagesTs", "labelsTs"}) {
      fs::create_directory(fs::path(folder_.path()) / part);
    }
    for (int volume = 0; volume < 6; ++volume) Write(volume, volume < 4 ? "Tr" : "Ts", 1);
  }

  std::string PathOf(const std::string& folder, int volume) const {
    return fs::path(folder_.path()) / folder / fmt::format("case_{}.nii", volume);
  }

  static formats::NiftiGrid GridOf(double spacing) {
    return {.size = {8, 6, 4},
            .channels = 1,
            .affine = {{{spacing, 0, 0, 0}, {0, spacing, 0, 0}, {0, 0, spacing, 0}}}};
  }

  void Write(int volume, const std::string& part, double spacing) const {
    std::vector<float> values(kVoxels);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(1000 * volume) + static_cast<float>(i);
    }
    std::vector<uint8_t> labels(kVoxels, 0);
    labels[100] = volume == 3 ? 1 : 2;
    const formats::NiftiGrid grid = GridOf(spacing);
    formats::WriteNifti(PathOf("images" + part, volume), grid, std::span<const float>(values));
    formats::WriteNifti(PathOf("labels" + part, volume), grid, std::span<const uint8_t>(labels));
  }

  // Intensities as they are, unless asked otherwise.
  std::unique_ptr<Source> Make(Given given = {}, graph::Shape images = {1, 2, 3, 4, 1},
                               int64_t classes = 3, uint64_t seed = 11) const {
    given.emplace("folder", folder_.path());
    given.emplace("normalise", std::string("none"));
    return MakeVolumes("volumes", images, classes, given, seed);
  }
  std::string RefusalOf(const std::string& setting, const Given& given,
                        const graph::Shape& images = {1, 2, 3, 4, 1}, int64_t classes = 3) const {
    return SettingErrorOf(setting, [&] { Make(given, images, classes); });
  }

  static int VolumeOf(float intensity) { return static_cast<int>(intensity) / 1000; }

  const TempFolder folder_;
};

TEST_F(VolumeSource, ReadsPatchesOfEachVolumeOnceAnEpoch) {
  const auto source = Make();
  std::set<std::vector<int>> orders;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    const VolumeBatch batch = ReadVolumes(*source, 4 * epoch, {4, 2, 3, 4, 1});
    std::vector<int> order;
    for (size_t row = 0; row < 4; ++row) {
      const auto image = std::span(batch.images).subspan(row * 24, 24);
      const int volume = VolumeOf(image[0]), first = static_cast<int>(image[0]) % 1000;
      order.push_back(volume);
      for (int i = 0; i < 24; ++i) {
        const int voxel = first + i / 12 * 48 + i / 4 % 3 * 8 + i % 4;
        EXPECT_EQ(image[static_cast<size_t>(i)], static_cast<float>(1000 * volume + voxel));
        EXPECT_EQ(batch.labels[row * 24 + static_cast<size_t>(i)], voxel != 100  ? 0
                                                                   : volume == 3 ? 1
                                                                                 : 2);
      }
    }
    orders.insert(order);
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  }
  EXPECT_GT(orders.size(), 2u);
  EXPECT_EQ(source->epoch_samples(), 4);
  EXPECT_EQ(source->sizes(), (std::vector<int64_t>{4, 4 * kVoxels}));
  EXPECT_EQ(source->CountTargets("", 3, 5), 5 * 24);
}

TEST_F(VolumeSource, DependsOnSampleAndSeedAlone) {
  const Given given = {{"flip", true}, {"rotate90", true}, {"scale_intensity", 0.5}};
  const graph::Shape patch = {1, 3, 3, 3, 1}, rows = {5, 3, 3, 3, 1};
  const auto source = Make(given, patch);
  const VolumeBatch all = ReadVolumes(*source, 40, rows);
  const VolumeBatch one = ReadVolumes(*source, 42, patch);
  EXPECT_TRUE(std::ranges::equal(one.images, std::span(all.images).subspan(2 * 27, 27)));
  EXPECT_TRUE(std::ranges::equal(one.labels, std::span(all.labels).subspan(2 * 27, 27)));
  EXPECT_EQ(ReadVolumes(*Make(given, patch), 40, rows), all);
  EXPECT_NE(ReadVolumes(*Make(given, patch, 3, 12), 40, rows), all);
}

TEST_F(VolumeSource, ChoosesPatchesAroundForeground) {
  const auto share = [&](double foreground) {
    const auto source = Make({{"foreground", foreground}}, {1, 1, 1, 1, 1});
    const VolumeBatch batch = ReadVolumes(*source, 0, {1000, 1, 1, 1, 1});
    return static_cast<double>(1000 - std::ranges::count(batch.labels, 0)) / 1000;
  };
  EXPECT_EQ(share(1), 1);
  EXPECT_NEAR(share(0.5), 0.5, 0.06);
  EXPECT_LT(share(0), 0.03);
}

// Image and labels stay together: voxel 100 of a volume has the label.
TEST_F(VolumeSource, AugmentsImageAndLabelsAlike) {
  const auto source = Make({{"flip", true}, {"rotate90", true}}, {1, 3, 3, 3, 1});
  const VolumeBatch batch = ReadVolumes(*source, 0, {200, 3, 3, 3, 1});
  std::set<float> corner_steps;
  for (size_t row = 0; row < 200; ++row) {
    for (size_t i = row * 27; i < (row + 1) * 27; ++i) {
      const int voxel = static_cast<int>(batch.images[i]) % 1000;
      EXPECT_EQ(batch.labels[i] > 0, voxel == 100);
    }
    corner_steps.insert(batch.images[row * 27 + 1] - batch.images[row * 27]);
  }
  // Along w, the patch runs along each axis of the volume, in both directions.
  EXPECT_EQ(corner_steps, (std::set<float>{-48, -8, -1, 1, 8, 48}));
}

TEST_F(VolumeSource, ChangesIntensitiesButNotThoseHeldOut) {
  const Given given = {{"scale_intensity", 0.1}, {"shift_intensity", 0.5}};
  const VolumeBatch plain = ReadVolumes(*Make(), 0, {50, 2, 3, 4, 1});
  const VolumeBatch changed = ReadVolumes(*Make(given), 0, {50, 2, 3, 4, 1});
  EXPECT_EQ(changed.labels, plain.labels);
  for (size_t i = 0; i < plain.images.size(); ++i) {
    EXPECT_NEAR(changed.images[i], plain.images[i], 0.1 * plain.images[i] + 0.5);
  }
  EXPECT_NE(changed.images, plain.images);
  EXPECT_EQ(ReadVolumes(*Make(given)->HeldOut(0), 0, {9, 2, 3, 4, 1}),
            ReadVolumes(*Make()->HeldOut(0), 0, {9, 2, 3, 4, 1}));
}

TEST_F(VolumeSource, NormalisesEachVolume) {
  const auto source = Make({{"normalise", std::string("z_score")}}, {1, 4, 6, 8, 1});
  const VolumeBatch batch = ReadVolumes(*source, 0, {1, 4, 6, 8, 1});
  EXPECT_NEAR(batch.images.front(), -std::sqrt(3), 0.02);  // of uniform intensities
  EXPECT_NEAR(batch.images.back(), std::sqrt(3), 0.02);
  const auto clipped = Make({{"clip", std::vector<double>{1050, 1100}}}, {1, 4, 6, 8, 1});
  for (int64_t sample = 0; sample < 4; ++sample) {
    const VolumeBatch one = ReadVolumes(*clipped, sample, {1, 4, 6, 8, 1});
    for (const float value : one.images) EXPECT_TRUE(value >= 1050 && value <= 1100);
  }
}

TEST_F(VolumeSource, HoldsOutTestsInWindows) {
  const auto held_out = Make({{"overlap", 0.0}})->HeldOut(0);
  // 2 · 2 · 2 windows of each of two volumes, without overlap.
  EXPECT_EQ(held_out->samples(), 16);
  EXPECT_EQ(held_out->CountTargets("", 0, 16), 2 * kVoxels);
  EXPECT_EQ(held_out->CountTargets("", 15, 40), 24);
  EXPECT_EQ(HeldOutBatches(Make({{"overlap", 0.0}})->HeldOut(3), 2).count(), 2);
  const VolumeBatch batch = ReadVolumes(*held_out, 0, {17, 2, 3, 4, 1});
  std::map<int, int> seen;
  for (size_t i = 0; i < 16 * 24; ++i) ++seen[static_cast<int>(batch.images[i])];
  EXPECT_EQ(std::ssize(seen), 2 * kVoxels);
  EXPECT_EQ(seen.begin()->first, 4000);
  EXPECT_EQ(std::ranges::count(batch.labels, 2), 2);
  // The row beyond them.
  EXPECT_EQ(std::ranges::count(std::span(batch.labels).subspan(16 * 24), -1), 24);
}

TEST_F(VolumeSource, CountsEachHeldOutVoxelOnceWhereWindowsOverlap) {
  const auto held_out = Make({{"overlap", 0.5}})->HeldOut(0);
  const int64_t windows = *held_out->samples();
  EXPECT_EQ(windows, 2 * 3 * 4 * 3);
  const VolumeBatch batch = ReadVolumes(*held_out, 0, {windows, 2, 3, 4, 1});
  EXPECT_EQ(std::ranges::count_if(batch.labels, [](int32_t label) { return label >= 0; }),
            2 * kVoxels);
  EXPECT_EQ(std::ranges::count(batch.labels, 2), 2);
  EXPECT_EQ(held_out->CountTargets("", 0, windows), 2 * kVoxels);
}

TEST_F(VolumeSource, HoldsOutTheLastVolumesForTraining) {
  const auto source = Make({{"held_out", int64_t{1}}});
  EXPECT_EQ(source->epoch_samples(), 3);
  for (int64_t sample = 0; sample < 12; ++sample) {
    EXPECT_LT(VolumeOf(ReadVolumes(*source, sample, {1, 2, 3, 4, 1}).images[0]), 3);
  }
  const VolumeBatch batch = ReadVolumes(*source->HeldOut(0), 0, {1, 2, 3, 4, 1});
  EXPECT_EQ(VolumeOf(batch.images[0]), 3);
  EXPECT_THAT(RefusalOf("held_out", {{"held_out", int64_t{4}}}),
              HasSubstr("4 of 4 volumes for training"));
}

TEST_F(VolumeSource, SaysWhetherItHoldsOut) {
  const auto holds_out = [&] {
    Settings settings;
    settings.Set("folder", folder_.path());
    const SourceKind* const kind = FindSource("volumes");
    CompleteSettings(kind->settings, kind->complete, settings);
    return kind->holds_out(settings);
  };
  EXPECT_TRUE(holds_out());
  fs::remove_all(fs::path(folder_.path()) / "labelsTs");
  EXPECT_FALSE(holds_out());
  EXPECT_EQ(Make()->HeldOut(0), nullptr);
  EXPECT_EQ(Make({{"held_out", int64_t{1}}, {"overlap", 0.0}})->HeldOut(0)->samples(), 8);
}

TEST_F(VolumeSource, ReadsSlicesForModelsOfPictures) {
  const auto source = Make({{"foreground", 0.0}}, {1, 6, 8, 1});
  const VolumeBatch batch = ReadVolumes(*source, 0, {40, 6, 8, 1});
  std::set<int> slices;
  for (size_t row = 0; row < 40; ++row) {
    const int first = static_cast<int>(batch.images[row * 48]) % 1000;
    EXPECT_EQ(first % 48, 0);
    slices.insert(first / 48);
    EXPECT_EQ(batch.images[row * 48 + 47], batch.images[row * 48] + 47);
  }
  EXPECT_EQ(slices, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(source->HeldOut(0)->samples(), 2 * 4);
}

TEST_F(VolumeSource, PadsSmallVolumesIfAsked) {
  const graph::Shape patch = {1, 6, 3, 4, 1};
  EXPECT_THAT(RefusalOf("folder", {}, patch),
              HasSubstr("case_0 has 4 × 6 × 8 voxels, and the model reads patches of 6 × 3 × 4; "
                        "data.pad: true"));
  const auto source = Make({{"pad", true}}, patch);
  const VolumeBatch batch = ReadVolumes(*source, 0, {9, 6, 3, 4, 1});
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const size_t slice = i / 12 % 6;
    EXPECT_EQ(batch.labels[i] == -1, slice == 0 || slice == 5);
    EXPECT_TRUE(batch.labels[i] >= 0 || batch.images[i] == 0);
  }
  EXPECT_EQ(source->CountTargets("", 0, 9), 9 * 4 * 3 * 4);
  EXPECT_EQ(source->HeldOut(0)->CountTargets("", 0, 1000), 2 * kVoxels);
}

// In the volumes for training and held out the label 2 is ignored; patches have it or not.
TEST_F(VolumeSource, WhatIsIgnoredCountsForNothing) {
  WriteFile(folder_ / "dataset.json", R"({"labels": {"background": 0, "tumour": 1, "ignore": 2}})");
  const Given given = {{"foreground", 0.0}, {"overlap", 0.0}};
  const auto source = Make(given, {1, 2, 3, 4, 1}, 2);
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"background", "tumour"}));
  EXPECT_EQ(MessageOf<UserError>([&] { source->CheckBound("labels", 2); }), std::nullopt);
  const VolumeBatch batch = ReadVolumes(*source, 0, {200, 2, 3, 4, 1});
  int64_t ignored = 0;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const int volume = VolumeOf(batch.images[i]), voxel = static_cast<int>(batch.images[i]) % 1000;
    const bool marked = voxel == 100;
    EXPECT_EQ(batch.labels[i], !marked ? 0 : volume == 3 ? 1 : -1);
    ignored += batch.labels[i] < 0;
  }
  EXPECT_GT(ignored, 0);
  EXPECT_EQ(source->CountTargets("", 0, 200), 200 * 24 - ignored);
  const auto held_out = source->HeldOut(0);
  EXPECT_EQ(held_out->CountTargets("", 0, 16), 2 * kVoxels - 2);
  const VolumeBatch seen = ReadVolumes(*held_out, 0, {16, 2, 3, 4, 1});
  EXPECT_EQ(std::ranges::count(seen.labels, -1), 2);
  EXPECT_THAT(source->Describe({}), HasSubstr("  label 2 (ignore) and labels below 0 count for"));
  // Around foreground: only volume 3 has some.
  const auto around = Make({{"foreground", 1.0}}, {1, 1, 1, 1, 1}, 2);
  const VolumeBatch voxels = ReadVolumes(*around, 0, {400, 1, 1, 1, 1});
  EXPECT_EQ(std::ranges::count(voxels.labels, 1), 100);
  EXPECT_LT(std::ranges::count(voxels.labels, -1), 20);
  // Windows of ignored voxels alone are no samples.
  EXPECT_EQ(Make(given, {1, 1, 1, 1, 1}, 2)->HeldOut(0)->samples(), 2 * kVoxels - 2);
}

TEST_F(VolumeSource, TheDatasetMayNameOtherClasses) {
  WriteFile(folder_ / "dataset.json", R"({"labels": {"background": 0, "tumour": 1, "ignore": 2}})");
  EXPECT_THAT(RefusalOf("folder", {}), HasSubstr("set model.classes to 2"));
  WriteFile(folder_ / "dataset.json", R"({"labels": {"background": 0, "tumour": 1}})");
  const auto source = Make();
  EXPECT_EQ(source->class_names(), std::vector<std::string>());
  EXPECT_THAT(
      source->Describe({}),
      HasSubstr("  dataset.json names the labels 0, 1, and the model's classes are 0 to 2"));
  const auto named = Make({{"class_names", std::vector<std::string>{"x", "y", "z"}}});
  EXPECT_THAT(named->Describe({}), Not(HasSubstr("dataset.json")));
}

// No voxel of them could be evaluated.
TEST_F(VolumeSource, HeldOutVolumesMayNotAllBeIgnored) {
  WriteFile(folder_ / "dataset.json", R"({"labels": {"ignore": 0, "tumour": 1, "edema": 2}})");
  const Given last = {{"held_out", int64_t{1}}};
  EXPECT_GT(Make(last)->HeldOut(0)->samples(), 0);
  formats::WriteNifti(PathOf("labelsTr", 3), GridOf(1),
                      std::span<const uint8_t>(std::vector<uint8_t>(kVoxels, 0)));
  ExpectUserError([&] { Make(last)->HeldOut(0); },
                  {"data.folder: no held-out volume has a voxel that counts",
                   "label 0 (ignore) and labels below 0"});
}

TEST_F(VolumeSource, NormalisesAsChannelNamesAsk) {
  const auto normalise = [&](const std::string& names, bool clips = false) {
    WriteFile(folder_ / "dataset.json", R"({"channel_names": )" + names + "}");
    Settings settings;
    settings.Set("folder", folder_.path());
    if (clips) settings.Set("clip", std::vector<double>{-57, 164});
    const SourceKind* const kind = FindSource("volumes");
    CompleteSettings(kind->settings, kind->complete, settings);
    return settings.Text("normalise");
  };
  EXPECT_EQ(normalise(R"({"0": "T1", "1": "zscore"})"), "z_score");
  EXPECT_EQ(normalise(R"({"0": "noNorm"})"), "none");
  for (const char* const names :
       {R"({"0": "CT"})", R"({"0": "rescale_to_0_1"})", R"({"0": "T1", "1": "noNorm"})"}) {
    const auto message = MessageOf<SettingError>([&] { normalise(names); });
    ASSERT_TRUE(message) << names;
    ExpectText(*message, {"/dataset.json: channel", "with data.normalise"});
  }
  EXPECT_NE(Make({{"normalise", std::string("z_score")}}), nullptr);  // the run file says it
  EXPECT_EQ(normalise(R"({"0": "CT"})", true), "z_score");
  EXPECT_EQ(normalise(R"({"0": "noNorm"})", true), "none");
  for (const char* const names : {R"({"0": "rescale_to_0_1"})", R"({"0": "CT", "1": "noNorm"})"}) {
    EXPECT_TRUE(MessageOf<SettingError>([&] { normalise(names, true); })) << names;
  }
}

TEST_F(VolumeSource, ResamplesOrRefusesAnotherSpacing) {
  Write(2, "Tr", 2);
  const Given to_1 = {{"spacing", std::vector<double>{1}}};
  EXPECT_EQ(Make()->sizes(), (std::vector<int64_t>{4, 4 * kVoxels}));
  EXPECT_EQ(Make(to_1)->sizes(), (std::vector<int64_t>{4, (3 + 8) * kVoxels}));
  EXPECT_THAT(UserErrorOf([&] {
                Make({{"spacing", std::vector<double>{1, 1, 1}}, {"resample", false}});
              }),
              HasSubstr("case_2"));
  EXPECT_THAT(RefusalOf("spacing", {{"spacing", std::vector<double>{1, 1}}}),
              HasSubstr("2 numbers; give one for each of z, y and x"));
}

TEST_F(VolumeSource, SkipsWhatItCannotReadIfAsked) {
  std::ofstream(PathOf("imagesTr", 1)) << "no volume";
  EXPECT_THAT(UserErrorOf([&] { Make(); }),
              testing::AllOf(testing::StartsWith("data.folder: "), HasSubstr("case_1.nii"),
                             HasSubstr("data.unreadable: skip")));
  const auto source = Make({{"unreadable", std::string("skip")}});
  EXPECT_EQ(source->epoch_samples(), 3);
  ExpectText(source->Describe({}), {"  1 skipped, which cannot be read:\n    ", "case_1.nii"});
  for (const int volume : {0, 2, 3}) std::ofstream(PathOf("imagesTr", volume)) << "no volume";
  EXPECT_THAT(RefusalOf("folder", {{"unreadable", std::string("skip")}}),
              HasSubstr("no volume to train on can be read"));
}

TEST_F(VolumeSource, RefusesWhatDoesNotSuit) {
  EXPECT_THAT(RefusalOf("folder", {}, {1, 2, 3, 4, 2}),
              HasSubstr("volumes have 1 channel, and the model reads 2; set model.channels: 1"));
  EXPECT_THAT(RefusalOf("clip", {{"clip", std::vector<double>{3}}}), HasSubstr("two numbers"));
  EXPECT_THAT(RefusalOf("clip", {{"clip", std::vector<double>{3, 3}}}), HasSubstr("two numbers"));
  EXPECT_THAT(RefusalOf("folder", {{"folder", std::string("/nowhere")}}), HasSubstr("/nowhere"));
  EXPECT_THAT(UserErrorOf([&] { Make({}, {1, 2, 3, 4, 1}, 2); }), HasSubstr("label 2"));
  EXPECT_THAT(UserErrorOf([&] { Make({{"most_voxels", int64_t{100}}}); }), HasSubstr("100"));
  EXPECT_THAT(UserErrorOf([&] {
                Make({}, {1, 2, 3, 4, 1}, 0)->CheckBound("labels", 2);
              }),
              HasSubstr("case_0: has label 2, but the model distinguishes 2 classes, 0 to 1"));
  EXPECT_EQ(MessageOf<UserError>([&] { Make()->CheckBound("labels", 3); }), std::nullopt);
}

TEST_F(VolumeSource, DescribesItself) {
  const Given given = {
      {"flip", true}, {"rotate90", true}, {"scale_intensity", 0.1}, {"shift_intensity", 0.2}};
  EXPECT_EQ(
      Make(given)->Describe(
          {.samples_per_step = 2, .samples = 40, .held_out_targets = 384, .eval_every = 5}),
      "data: 4 volumes to train on, 768 voxels with 1 channel, in patches of 2 × 3 × 4, 2 per "
      "step, 10.0 epochs, 384 voxels of 2 held-out volumes evaluated every 5 steps\n"
      "  5.62 KiB in memory\n"
      "  around foreground with probability 0.33\n"
      "  flipped along each axis with probability 1/2\n"
      "  rotated by multiples of 90°\n"
      "  intensities scaled by 1 ± 0.1\n"
      "  intensities shifted by up to 0.2\n");
}

TEST_F(VolumeSource, TakesNoMemoryToFill) {
  const auto source = Make({{"flip", true}, {"rotate90", true}, {"shift_intensity", 0.2}});
  std::vector<float> images(24);
  std::vector<int32_t> labels(24);
  const graph::Slot slots[] = {
      {"images",
       {graph::DType::kFloat32, {1, 2, 3, 4, 1}},
       std::as_writable_bytes(std::span(images))},
      {"labels", {graph::DType::kInt32, {1, 2, 3, 4}}, std::as_writable_bytes(std::span(labels))}};
  EXPECT_EQ(CountAllocations([&] {
              for (int64_t sample = 0; sample < 20; ++sample) source->Fill(sample, slots);
            }),
            0);
}

}  // namespace
}  // namespace plimsoll::data
