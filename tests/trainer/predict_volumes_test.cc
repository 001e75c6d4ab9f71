// `plimsoll predict` of volumes as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "formats/base64.h"
#include "formats/nifti.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using formats::NiftiGrid;
using nlohmann::json;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

constexpr int64_t kClasses = 3, kMostValues = 1 << 20;

// x of the file goes to the left, y to the head, z to the front; voxels of 1, 2 and 3 mm.
NiftiGrid Grid(const std::array<int64_t, 3>& size) {
  return {
      .size = size,
      .channels = 1,
      .affine = {{{-1, 0, 0, 40}, {0, 0, 3, -20}, {0, 2, 0, 5}}},
  };
}

// A box of class 1 that holds one of class 2, brighter by class.
void WriteVolume(const std::string& folder, const std::string& part, const std::string& name,
                 const NiftiGrid& grid, int64_t shift) {
  std::vector<int16_t> image;
  std::vector<uint8_t> label;
  for (int64_t i = 0; i < grid.values(); ++i) {
    const int64_t x = i % grid.size[0], y = i / grid.size[0] % grid.size[1];
    const int64_t z = i / (grid.size[0] * grid.size[1]);
    const bool outer = x >= 2 + shift && x < 9 + shift && y >= 3 && y < 11 && z >= 1 && z < 7;
    const bool inner = x >= 4 + shift && x < 6 + shift && y >= 5 && y < 9 && z >= 2 && z < 5;
    label.push_back(inner ? 2 : outer ? 1 : 0);
    image.push_back(static_cast<int16_t>(100 * label.back() + (7 * x + 5 * y + 3 * z) % 11));
  }
  for (const char* kind : {"images", "labels"}) {
    std::filesystem::create_directories(folder + "/" + kind + part);
  }
  const std::string file = part + "/" + name + ".nii.gz";
  formats::WriteNifti(folder + "/images" + file, grid, std::span<const int16_t>(image));
  formats::WriteNifti(folder + "/labels" + file, grid, std::span<const uint8_t>(label));
}

class PredictVolumes : public testing::Test {
 protected:
  PredictVolumes() {
    // Two patches along each side.
    const NiftiGrid grid = Grid({16, 16, 8});
    for (int64_t i = 0; i < 3; ++i) {
      WriteVolume(set(), "Tr", "train_" + std::to_string(i), grid, i);
    }
    for (int64_t i = 0; i < 2; ++i) {
      WriteVolume(set(), "Ts", "test_" + std::to_string(i), grid, i + 1);
    }
  }

  std::string set() const { return folder_ / "set"; }
  std::string Image(int number) const {
    return set() + "/imagesTs/test_" + std::to_string(number) + ".nii.gz";
  }

  void Train(const std::string& run, const std::string& model, const std::string& data,
             const Arguments& more = {}) const {
    const std::string file = folder_.Write(
        run + ".yaml",
        "model: {family: unet, levels: 2, features: 4, convolutions: 1, classes: 3, " + model +
            "}\ndata: {source: volumes, folder: " + set() +
            ", class_names: [background, liver, tumour], " + data +
            "}\ntrain: {steps: 2, micro_batch: 2, threads: 1, eval_every: 2, eval_sequences: 0}\n"
            "optimizer: {lr: 1e-2}\nschedule: {name: constant}\n"
            "memory: {summary: false, calibrate: false}\n");
    Arguments arguments = {"train", file, "--set", "run.dir=" + folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ExpectExit(0, RunPlimsoll(arguments));
  }
  Outcome Predict(const std::string& run, Arguments more, const std::string& to) const {
    more.insert(more.begin(), {"predict", folder_ / run});
    if (!to.empty()) more.insert(more.end(), {"--to", folder_ / to});
    return RunPlimsoll(more);
  }
  std::vector<json> PredictJson(const std::string& run, Arguments more,
                                const std::string& to) const {
    more.emplace_back("--json");
    const Outcome outcome = ExpectExit(0, Predict(run, more, to));
    return JsonLines(outcome.out);
  }
  // How often each label of the test volumes was predicted as each class, in the files' voxels.
  json Tally(const std::string& to) const {
    std::vector<std::vector<double>> counts(kClasses, std::vector<double>(kClasses));
    for (const std::string& name : folder_.Names(to)) {
      if (name == "predictions.json") continue;
      const auto predicted = formats::ReadNifti(folder_ / to + "/" + name, kMostValues);
      const auto label = formats::ReadNifti(set() + "/labelsTs/" + name, kMostValues);
      EXPECT_EQ(predicted.grid, label.grid) << name;
      for (size_t i = 0; i < label.values.size(); ++i) {
        ++counts[static_cast<size_t>(label.values[i])][static_cast<size_t>(predicted.values[i])];
      }
    }
    return counts;
  }

  const TempFolder folder_;
};

constexpr const char* kVolume = "image_depth: 8, image_height: 4, image_width: 8";

TEST_F(PredictVolumes, AreWhatTheEvaluationCounts) {
  // Windows of their own, so that nothing is merged: in 3-D, and in slices.
  for (const std::string depth : {"image_depth: 8, ", ""}) {
    const std::string run = depth.empty() ? "slices" : "volumes";
    Train(run, depth + "image_height: 4, image_width: 8", "overlap: 0");
    const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", folder_ / run, "--json"}));
    const std::vector<json> lines = PredictJson(run, {set()}, run + "_predicted");
    EXPECT_EQ(Tally(run + "_predicted"), json::parse(eval.out).at("confusion").at("sum"));
    EXPECT_THAT(RunPlimsoll({"eval", folder_ / run}).out,
                AllOf(HasSubstr("dice liver "), HasSubstr("dice tumour ")));
    // Two volumes and the means.
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[1].at("file"), Image(1));
    EXPECT_EQ(lines[1].at("segmentation"), folder_ / (run + "_predicted") + "/test_1.nii.gz");
    double voxels = 0, ml = 0;
    for (const json& of_class : lines[1].at("classes")) {
      voxels += of_class.at("voxels").get<double>();
      ml += of_class.at("ml").get<double>();
    }
    EXPECT_EQ(voxels, 16 * 16 * 8);
    EXPECT_NEAR(ml, 16 * 16 * 8 * 6 / 1000.0, 1e-3);
    EXPECT_EQ(lines[1].at("classes")[2].at("name"), "tumour");
    EXPECT_EQ(lines[2].at("labelled_volumes"), 2);
    EXPECT_NEAR(
        lines[2].at("mean_dice"),
        (lines[0].at("mean_dice").get<double>() + lines[1].at("mean_dice").get<double>()) / 2,
        1e-9);
  }
}

// Voxels of the label that dataset.json calls "ignore" are in no loss, confusion or Dice, and it is
// no class of the model.
TEST_F(PredictVolumes, WhatIsIgnoredIsInNoScore) {
  WriteFile(set() + "/dataset.json", R"({"labels": {"background": 0, "liver": 1, "ignore": 2}})");
  Train("run", kVolume, "overlap: 0",
        {"--set", "model.classes=2", "--set", "data.class_names=[background, liver]"});
  const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", folder_ / "run", "--json"}));
  const std::vector<json> lines = PredictJson("run", {set()}, "to");
  const json tally = Tally("to");
  ASSERT_GT(tally[2][0].get<double>() + tally[2][1].get<double>(), 0);  // what is ignored
  EXPECT_EQ(json::parse(eval.out).at("confusion").at("sum"),
            json({{tally[0][0], tally[0][1]}, {tally[1][0], tally[1][1]}}));
  double both = 0, label = 0, predicted = 0;
  const auto written = formats::ReadNifti(folder_ / "to/test_0.nii.gz", kMostValues);
  const auto truth = formats::ReadNifti(set() + "/labelsTs/test_0.nii.gz", kMostValues);
  for (size_t i = 0; i < truth.values.size(); ++i) {
    if (truth.values[i] == 2) continue;
    label += truth.values[i];
    predicted += written.values[i];
    both += truth.values[i] * written.values[i];
  }
  EXPECT_NEAR(lines[0].at("classes")[1].at("dice"), 2 * both / (label + predicted), 1e-12);
}

TEST_F(PredictVolumes, RegionsAreRefused) {
  WriteFile(set() + "/dataset.json", R"({"labels": {"background": 0, "liver": [1, 2]}})");
  const std::string file =
      folder_.Write("run.yaml",
                    "model: {family: unet, levels: 2, features: 4, classes: 3, image_height: 4, "
                    "image_width: 8}\ndata: {source: volumes, folder: " +
                        set() + "}\n");
  ExpectExit(2, RunPlimsoll({"train", file}), {"dataset.json: labels: 'liver': [1,2] is a region"});
}

// Three panels of a slice of 4 × 8 voxels, at 16 pixels each.
TEST_F(PredictVolumes, TheRunShowsSlices) {
  Train("run", kVolume, "overlap: 0");
  EXPECT_EQ(folder_.Names("run/slices"),
            (Arguments{"sample_0.png", "sample_1.png", "sample_2.png", "sample_3.png"}));
  const std::string report = folder_.Read("run/report.html");
  for (const std::string& name : folder_.Names("run/slices")) {
    const std::string png = folder_.Read("run/slices/" + name);
    EXPECT_EQ(png.substr(12, 12), std::string("IHDR\0\0\1\x80\0\0\0\x40", 12)) << name;
    const std::span bytes(reinterpret_cast<const uint8_t*>(png.data()), png.size());
    EXPECT_NE(report.find(formats::Base64(bytes)), std::string::npos) << name;
  }
}

TEST_F(PredictVolumes, LieInTheVoxelsOfTheirInput) {
  // The model sees voxels of 2 mm, and the files have other ones.
  Train("run", kVolume, "spacing: [2], overlap: 0.5, pad: true, clip: [0, 150]");
  const Outcome outcome = ExpectExit(0, Predict("run", {Image(0), Image(1)}, "a"));
  EXPECT_THAT(outcome.out, HasSubstr(Image(0) + ": background "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("Dice")));  // single files have no labels
  ExpectText(outcome.err,
             {"2 volumes, most memory for test_0: up to ", "test_1: 16 × 12 × 8 voxels in ",
              "; sums of 8 slices 10.4 KiB", "; host "});
  Tally("a");  // expects the grids
  EXPECT_EQ(Predict("run", {Image(0), Image(1), "--batch", "3"}, "b").out, outcome.out);
  EXPECT_EQ(Tally("b"), Tally("a"));

  // Smaller than the model's patches along two sides.
  const NiftiGrid small = Grid({6, 5, 3});
  WriteVolume(folder_ / "small", "Ts", "small", small, 0);
  const std::string file = folder_ / "small/imagesTs/small.nii.gz";
  ExpectExit(0, Predict("run", {file, "--overlap", "0.25"}, "c"));
  const formats::NiftiVolume written = formats::ReadNifti(folder_ / "c/small.nii.gz", kMostValues);
  EXPECT_EQ(written.grid, small);
  EXPECT_LT(*std::ranges::max_element(written.values), kClasses);
}

// A ball of 8 mm in the middle of a cube of 32 mm, moved by `shift` mm along each axis, in cubic
// voxels of `spacing` mm.
void WriteBall(const std::string& folder, const std::string& part, const std::string& name,
               double spacing, double shift) {
  const int64_t side = std::llround(32 / spacing);
  const NiftiGrid grid = {
      .size = {side, side, side},
      .channels = 1,
      .affine = {{{spacing, 0, 0, 0}, {0, spacing, 0, 0}, {0, 0, spacing, 0}}},
  };
  std::vector<int16_t> image;
  std::vector<uint8_t> label;
  for (int64_t i = 0; i < grid.values(); ++i) {
    double squares = 0;
    for (const int64_t index : {i % side, i / side % side, i / (side * side)}) {
      const double from_centre = (static_cast<double>(index) + 0.5) * spacing - 16 - shift;
      squares += from_centre * from_centre;
    }
    const double inside = 8 - std::sqrt(squares);
    label.push_back(inside > 0);
    image.push_back(static_cast<int16_t>(100 * std::clamp(inside / 2 + 0.5, 0.0, 1.0)));
  }
  for (const char* kind : {"images", "labels"}) {
    std::filesystem::create_directories(folder + "/" + kind + part);
  }
  const std::string file = part + "/" + name + ".nii.gz";
  formats::WriteNifti(folder + "/images" + file, grid, std::span<const int16_t>(image));
  formats::WriteNifti(folder + "/labels" + file, grid, std::span<const uint8_t>(label));
}

// Training labels are resampled from voxels of half the model's size, predictions to voxels of
// twice that size. Both moved masks by half of the smaller voxel when they took the nearest one.
TEST_F(PredictVolumes, StayInPlaceAtOtherSpacings) {
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    WriteBall(set() + "_balls", "Tr", number, 0.5, i - 2);
    WriteBall(set() + "_balls", "Ts", number, 2, 0.6 * i - 1);
  }
  Train("run", "image_depth: 16, image_height: 16, image_width: 16",
        "spacing: [1], normalise: none, clip: [0, 100]",
        {"--set", "data.folder=" + set() + "_balls", "--set", "model.classes=2", "--set",
         "data.class_names=[background, ball]", "--set", "train.steps=120"});
  ExpectExit(0, Predict("run", {set() + "_balls"}, "to"));
  double moved = 0;  // by this many millimetres, in the mean over volumes and axes
  for (int i = 0; i < 4; ++i) {
    const std::string name = "/" + std::to_string(i) + ".nii.gz";
    std::array<double, 2> centres = {};
    size_t part = 0;
    for (const std::string& file : {set() + "_balls/labelsTs" + name, folder_ / "to" + name}) {
      const formats::NiftiVolume mask = formats::ReadNifti(file, kMostValues);
      double voxels = 0, sum = 0;
      for (int64_t v = 0; v < mask.grid.values(); ++v) {
        if (mask.values[static_cast<size_t>(v)] != 1) continue;
        ++voxels;
        sum += static_cast<double>(v % 16 + v / 16 % 16 + v / 256) * 2 / 3;
      }
      ASSERT_GT(voxels, 100) << file;
      centres[part++] = sum / voxels;
    }
    moved += (centres[1] - centres[0]) / 4;
  }
  EXPECT_NEAR(moved, 0, 0.3);  // what a short training leaves; taking the nearest voxel: -0.8
}

TEST_F(PredictVolumes, AFileThatCannotBeReadIsAWarning) {
  Train("run", kVolume, "overlap: 0");
  const std::string broken = folder_.Write("broken.nii.gz", "no volume");
  ExpectExit(2, Predict("run", {broken, Image(0)}, "to"),
             {"warning: " + broken, "1 of 2 volumes could not be read"});
  EXPECT_EQ(folder_.Names("to"), (Arguments{"predictions.json", "test_0.nii.gz"}));
  EXPECT_EQ(json::parse(folder_.Read("to/predictions.json")).at("files"), json({"test_0.nii.gz"}));
}

TEST_F(PredictVolumes, OtherWeightsPredictionsAreNotReplacedUnlessTold) {
  Train("one", kVolume, "overlap: 0", {"--set", "save.every=1", "--set", "save.keep=0"});
  Train("other", kVolume, "overlap: 0", {"--set", "train.seed=7"});
  const auto record = [&] { return json::parse(folder_.Read("to/predictions.json")); };
  ExpectExit(0, Predict("one", {Image(0)}, "to"));
  const json first = record();
  EXPECT_EQ(first.at("model"), folder_ / "one");
  EXPECT_EQ(first.at("weights"), folder_ / "one/model");
  // The same weights go on in the folder, and may make a file again.
  ExpectExit(0, Predict("one", {Image(0), Image(1)}, "to"));
  EXPECT_EQ(record().at("checksum"), first.at("checksum"));
  EXPECT_EQ(record().at("files"), json({"test_0.nii.gz", "test_1.nii.gz"}));
  // Others do not, not even next to them: another model's, and those of another step.
  const std::string before = folder_.Read("to/test_0.nii.gz");
  for (const auto& [run, more] : std::map<std::string, Arguments>{
           {"other", {Image(0)}}, {"one", {Image(1), "--step", "1"}}}) {
    ExpectExit(2, Predict(run, more, "to"),
               {"to: holds predictions of other weights, " +
                folder_ / "one/model (predictions.json); name another folder, or "
                          "give --overwrite"});
  }
  EXPECT_EQ(folder_.Read("to/test_0.nii.gz"), before);
  ExpectExit(0, Predict("other", {Image(0), "--overwrite"}, "to"));
  EXPECT_NE(record().at("checksum"), first.at("checksum"));
  EXPECT_EQ(record().at("files"), json({"test_0.nii.gz"}));
  // What the other weights have made goes with them.
  EXPECT_EQ(folder_.Names("to"), (Arguments{"predictions.json", "test_0.nii.gz"}));
  // Another volume of the same name is another prediction.
  std::filesystem::create_directory(folder_ / "second");
  std::filesystem::copy_file(Image(1), folder_ / "second/test_0.nii.gz");
  ExpectExit(2, Predict("other", {folder_ / "second/test_0.nii.gz"}, "to"),
             {"to: holds test_0.nii.gz, which was predicted from " + Image(0)});
  // Neither is a file of which nothing says whose it is.
  std::filesystem::create_directory(folder_ / "own");
  const std::string own = folder_.Write("own/test_0.nii.gz", "a user's own");
  ExpectExit(2, Predict("one", {Image(0)}, "own"), {"own: holds test_0.nii.gz, and nothing says"});
  EXPECT_EQ(ReadFile(own), "a user's own");
  // Files of other names may join it.
  ExpectExit(0, Predict("one", {Image(1)}, "own"));
  ExpectExit(2, Predict("one", {Image(0)}, "own"));
  EXPECT_EQ(ReadFile(own), "a user's own");
}

// memory.host_budget, of the run or of this command: before anything is written.
TEST_F(PredictVolumes, NeedWhatIsSaidOfTheHost) {
  Train("run", kVolume, "overlap: 0.5");
  const auto predict = [&](const Arguments& more, const std::string& to) {
    Arguments all = {Image(0), Image(1)};
    all.insert(all.end(), more.begin(), more.end());
    return Predict("run", all, to);
  };
  const Outcome refused =
      ExpectExit(3, predict({"--host-budget", "1KiB"}, "to"),
                 {"memory.host_budget: 1.00 KiB (1024 bytes); ", "/test_0.nii.gz, 16 × 8 × 16",
                  "sums of 8 of 16 slices", "nothing was written"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to"));
  // What it takes is named to the byte.
  const std::string option = "--host-budget ";
  const size_t at = refused.err.find(option);
  ASSERT_NE(at, refused.err.npos) << refused.err;
  const int64_t bytes = std::stoll(refused.err.substr(at + option.size()));
  ExpectExit(3, predict({"--host-budget", std::to_string(bytes - 1)}, "to"),
             {"give --batch 1 in place of 2"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to"));
  ExpectExit(0, predict({"--host-budget", std::to_string(bytes)}, "to"), {"; host "});
  EXPECT_EQ(
      ExpectExit(0, predict({"--host-budget", std::to_string(bytes - 1), "--batch", "1"}, "one"))
          .out,
      ExpectExit(0, predict({}, "one")).out);
  EXPECT_EQ(Tally("one"), Tally("to"));
  // The run's own.
  Train("small", kVolume, "overlap: 0.5", {"--set", "memory.host_budget=1KiB"});
  ExpectExit(3, Predict("small", {Image(0)}, "small_to"),
             {"/small/config.yaml:", "memory.host_budget: 1.00 KiB"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "small_to"));
  ExpectExit(0, Predict("small", {Image(0), "--host-budget", "1GiB"}, "small_to"));
}

TEST_F(PredictVolumes, RefusesWithAWayOut) {
  Train("run", kVolume, "overlap: 0");
  const auto expect_refused = [&](const Arguments& more, const std::string& to,
                                  const std::vector<std::string>& parts) {
    ExpectRefusal(Predict("run", more, to), parts);
  };
  expect_refused({Image(0)}, "", {"--to", "give --to FOLDER"});
  expect_refused({folder_.Write("a.jpg", "")}, "to", {"a.jpg: volumes are read from NIfTI files"});
  expect_refused({Image(0), Image(0)}, "to", {"two volumes are called test_0"});
  expect_refused({Image(0)}, "set/imagesTs", {"would be written over it; name another folder"});
  expect_refused({set()}, "set/labelsTs", {"labelsTs/test_0.nii.gz would be written over"});
  expect_refused({"--text", "words"}, "to", {"--text: the model reads volumes"});
  expect_refused({folder_ / "none.nii"}, "to", {"none.nii"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to/none.nii.gz"));
}

TEST_F(PredictVolumes, OnlyTheyAreWrittenToAFolder) {
  const TempFolder pictures;
  data::WriteIdxFolder(pictures, 8, 8, 8, 8);
  const std::string file = folder_.Write(
      "vit.yaml",
      "model: {family: vit, layers: 1, width: 8, heads: 2, patch: 4, channels: 1, classes: 10, "
      "image_size: 8}\ndata: {source: images, folder: " +
          pictures.path() +
          "}\ntrain: {steps: 1, micro_batch: 4, threads: 1}\n"
          "memory: {summary: false, calibrate: false}\n");
  ExpectExit(0, RunPlimsoll({"train", file, "--set", "run.dir=" + folder_ / "vit"}));
  ExpectExit(2, Predict("vit", {pictures / "t10k-images-idx3-ubyte"}, "to"),
             {"--to: is for models that segment volumes"});
  ExpectExit(2, Predict("vit", {pictures / "t10k-images-idx3-ubyte", "--host-budget", "1GiB"}, ""),
             {"--host-budget: is for models that segment volumes"});
}

}  // namespace
}  // namespace plimsoll
