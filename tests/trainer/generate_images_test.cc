// `plimsoll generate` of a model that makes images, as users run it.
#include "trainer/language/generate_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "data/noise.h"
#include "formats/decode_raster.h"
#include "formats/raster.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

class GenerateImages : public testing::Test {
 protected:
  // So many steps, so large ones, that images differ.
  void Train(const std::string& run, int channels = 1) const {
    const std::string yaml = folder_.Write(
        run + ".yaml",
        "model: {family: dcgan, image_size: 8, channels: " + std::to_string(channels) +
            ", latent: 5, generator_features: 4, discriminator_features: 4}\n"
            "data: {source: synthetic_images}\n"
            "train: {steps: 40, micro_batch: 4, eval_every: 0, threads: 2}\n"
            "save: {every: 20}\n"
            "optimizer: {lr: 1e-2, betas: [0.5, 0.999], ema: 0.9}\n"
            "schedule: {name: constant}\n"
            "memory: {summary: none, calibrate: false}\n"
            "run: {dir: " +
            folder_ / run + "}\n");
    ExpectExit(0, RunPlimsoll({"train", yaml}));
  }

  static Outcome Run(const std::string& model, const Arguments& more) {
    Arguments arguments = {"generate", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPlimsoll(arguments);
  }
  // The files' bytes.
  std::vector<std::string> Make(const std::string& model, const std::string& images,
                                const Arguments& more = {}) {
    const std::string to = "made" + std::to_string(++made_);
    Arguments arguments = {"--images", images, "--to", folder_ / to};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ExpectExit(0, Run(folder_ / model, arguments));
    std::vector<std::string> files;
    for (const std::string& name : folder_.Names(to))
      files.push_back(folder_.Read(to + "/" + name));
    return files;
  }
  static formats::Raster Pixels(const std::string& file) {
    return formats::DecodeRaster({reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                                 "made");
  }
  void ExpectRefused(const Arguments& arguments, const Arguments& parts) const {
    const Outcome outcome = ExpectExit(2, RunPlimsoll(arguments));
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  const TempFolder folder_;

 private:
  int made_ = 0;
};

TEST_F(GenerateImages, WritesAFileForEach) {
  for (const int channels : {1, 3}) {
    const std::string run = "run" + std::to_string(channels), to = folder_ / (run + "/made/deep");
    Train(run, channels);
    const Outcome outcome =
        ExpectExit(0, Run(folder_ / run, {"--images", "5", "--to", to, "--batch", "2"}));
    ExpectText(outcome.out, {"5 images of 8 × 8 in " + to + ", ", " images/s; arena "});
    EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1) << outcome.out;
    EXPECT_THAT(folder_.Names(run + "/made/deep"),
                ElementsAre("000001.png", "000002.png", "000003.png", "000004.png", "000005.png"));
    for (const std::string& name : folder_.Names(run + "/made/deep")) {
      const formats::Raster image = Pixels(folder_.Read(run + "/made/deep/" + name));
      EXPECT_EQ(image.height, 8);
      EXPECT_EQ(image.width, 8);
      EXPECT_EQ(image.channels, channels);
    }
  }
}

TEST_F(GenerateImages, FollowFromWeightsSeedAndNumber) {
  Train("run");
  const std::vector<std::string> made = Make("run", "5");
  ASSERT_EQ(made.size(), 5u);
  EXPECT_NE(made[0], made[1]);
  EXPECT_EQ(Make("run", "2"), std::vector(made.begin(), made.begin() + 2));
  EXPECT_EQ(Make("run", "5", {"--batch", "64"}), made);
  // Each is made by itself.
  EXPECT_EQ(Make("run", "5", {"--batch", "2"}), made);
  EXPECT_EQ(Make("run/model", "5"), made);
  EXPECT_EQ(Make("run", "5", {"--step", "40"}), made);
  EXPECT_EQ(Make("run/snapshots/step-000000040", "5", {"--seed", "1337"}), made);

  EXPECT_NE(Make("run", "5", {"--seed", "1"}), made);
  EXPECT_NE(Make("run", "5", {"--step", "20"}), made);
  EXPECT_NE(Make("run", "5", {"--ema"}), made);
  const std::vector<std::string> low = Make("run", "5", {"--dtype", "bf16"});
  ASSERT_EQ(low.size(), 5u);
  EXPECT_NE(low, made);
  double difference = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    const formats::Raster a = Pixels(made[i]), b = Pixels(low[i]);
    for (size_t k = 0; k < a.pixels.size(); ++k) difference += std::abs(a.pixels[k] - b.pixels[k]);
  }
  EXPECT_LT(difference / (5 * 64), 3);
}

// What the evaluation of the generator leaves, as brightness.
TEST_F(GenerateImages, AreThoseOfTheEvaluation) {
  using namespace trainer;
  Train("run", 3);
  const TrainedModel trained = OpenTrainedModel(folder_ / "run", {}, {});
  EXPECT_TRUE(models::MakesImages(*trained.model));
  CompileOptions options = InferenceOptions(trained, "fp32");
  options.evaluate = true;
  options.micro_batch = 3;
  ThreadPool pool(options.threads);
  Session session(Compile(*trained.model, options), pool);
  LoadTrained(trained, session);
  data::FillNoise(session.slot("noise"), 0, NoiseSeed(7));
  session.Evaluate(std::vector<int64_t>{1, 1}, 1);
  const std::vector<float> evaluated = session.Read<float>(kMadeImages);

  std::vector<uint8_t> expected, actual;
  for (const float value : evaluated) {
    expected.push_back(static_cast<uint8_t>(std::lround((value + 1) / 2 * 255)));
  }
  for (const std::string& file : Make("run", "3", {"--seed", "7", "--batch", "3"})) {
    std::ranges::copy(Pixels(file).pixels, std::back_inserter(actual));
  }
  EXPECT_EQ(actual, expected);
  EXPECT_GT(*std::ranges::max_element(actual) - *std::ranges::min_element(actual), 10);
  // Neither the noise of training nor of other images.
  EXPECT_NE(NoiseSeed(7), 7u);
  EXPECT_NE(NoiseSeed(7), NoiseSeed(8));
}

TEST_F(GenerateImages, RefusesWhatDoesNotFit) {
  Train("run");
  const std::string run = folder_ / "run", to = folder_ / "to";
  const std::string way = "plimsoll generate " + run + " --images N --to FOLDER";
  ExpectRefused({"generate", run}, {run + ": models of family dcgan make images", way});
  for (const auto& [option, value] :
       {std::pair("--prompt", "Six"), std::pair("--tokens", "3"), std::pair("--stop", "x"),
        std::pair("--top-k", "3"), std::pair("--count", "2"), std::pair("--tokenizer", "byte")}) {
    ExpectRefused({"generate", run, option, value, "--images", "1", "--to", to},
                  {std::string(option) + ": is for models that continue texts", "dcgan", way});
  }
  ExpectRefused({"predict", run, run}, {"dcgan make images and predict no classes", way});
  for (const char* images : {"0", "-1", "1000000", "few"}) {
    ExpectRefused({"generate", run, "--images", images, "--to", to}, {"--images", images});
  }
  ExpectRefused({"generate", run, "--images", "1", "--to", to, "--batch", "0"}, {"--batch"});
  ExpectRefused({"generate", run, "--images", "1"}, {"--to: images are files", "--to FOLDER"});
  EXPECT_FALSE(std::filesystem::exists(to));
}

// An empty folder is welcome; of any other, no file is written over.
TEST_F(GenerateImages, RefusesFoldersThatHoldAnything) {
  Train("run");
  const std::string run = folder_ / "run", kept = folder_ / "kept";
  std::filesystem::create_directory(kept);
  const auto make = [&](const std::string& to) {
    return Arguments{"generate", run, "--images", "1", "--to", to};
  };
  ExpectExit(0, RunPlimsoll(make(kept)));
  const std::string file = folder_.Write("kept/000001.png", "a user's own");
  ExpectRefused(make(kept), {"--to " + kept + ": holds files already"});
  EXPECT_EQ(ReadFile(file), "a user's own");
  ExpectRefused(make(file), {"--to " + file + ": the folder cannot be made"});
  EXPECT_EQ(ReadFile(file), "a user's own");
  // Told so, it replaces images, also those of a larger set, and nothing else.
  folder_.Write("kept/000009.png", "an image");
  folder_.Write("kept/notes.txt", "a user's own");
  Arguments told = make(kept);
  told.emplace_back("--overwrite");
  ExpectExit(0, RunPlimsoll(told));
  EXPECT_EQ(folder_.Names("kept"), (Arguments{"000001.png", "notes.txt"}));
  EXPECT_EQ(ReadFile(file).substr(1, 3), "PNG");
  EXPECT_EQ(folder_.Read("kept/notes.txt"), "a user's own");
}

TEST_F(GenerateImages, RefusesModelsThatMakeNone) {
  const auto train = [&](const std::string& run, const std::string& yaml) {
    ExpectExit(0, RunPlimsoll({"train",
                               folder_.Write(run + ".yaml",
                                             yaml + "memory: {summary: none, calibrate: false}\n"),
                               "--set", "run.dir=" + folder_ / run}));
  };
  const std::string steps = "train: {steps: 1, micro_batch: 2, threads: 1, eval_every: 0}\n";
  train("text",
        "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 256, sequence: 8}\n"
        "data: {synthetic: true}\n" +
            steps);
  train("classes",
        "model: {family: resnet, depth: 8, image_size: 8, channels: 1, classes: 3}\n"
        "data: {source: synthetic_images}\n" +
            steps);
  const std::string to = folder_ / "to";
  const auto generate = [&](const std::string& run, const Arguments& more) {
    Arguments arguments = {"generate", folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  for (const auto& [option, value] :
       {std::pair("--images", "3"), std::pair("--to", "x"), std::pair("--batch", "3")}) {
    const std::string begin = std::string(option) + ": is for models that make images";
    ExpectRefused(generate("text", {option, value}),
                  {begin, "gpt2 continue texts", "plimsoll generate " + folder_ / "text"});
    ExpectRefused(generate("classes", {option, value}),
                  {begin, "resnet do not", "plimsoll predict " + folder_ / "classes"});
  }
  EXPECT_FALSE(std::filesystem::exists(to));

  // PNG files have no two channels.
  Train("two", 2);
  ExpectRefused(generate("two", {"--images", "3", "--to", to}), {"makes images of 2 channels"});
}

}  // namespace
}  // namespace plimsoll
