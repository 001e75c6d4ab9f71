// A DCGAN as users train it, from files of images: the pictures that it leaves, and its weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "formats/decode_raster.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DcganCommand : public testing::Test {
 protected:
  DcganCommand() {
    data::WriteIdxFolder(folder_, 40, 10, 16, 16);
    ExpectExit(0, RunPlimsoll({"data", "images", folder_ / "pictures", "--from", folder_.path()}));
    WriteFile(yaml_,
              "model: {family: dcgan, image_size: 16, channels: 1, latent: 5, "
              "generator_features: 4, discriminator_features: 4}\n"
              "data: {source: images, folder: " +
                  folder_ / "pictures" +
                  ", random_resized_crop: false, resize: 16, mean: 0.5, std: 0.5}\n"
                  "train: {steps: 4, micro_batch: 4, eval_every: 2, eval_sequences: 10, "
                  "threads: 1}\n"
                  "optimizer: {name: adamw, lr: 2e-4, betas: [0.5, 0.999], weight_decay: 0, "
                  "clip_grad_norm: 0}\n"
                  "memory: {summary: none, calibrate: false}\n");
  }

  using Sets = std::vector<std::string>;
  Sets Arguments(const std::string& run, const Sets& sets) const {
    return WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / run}, sets);
  }
  Outcome Train(const std::string& run, const Sets& sets = {}) const {
    return RunPlimsoll(Arguments(run, sets));
  }
  std::string Weights(const std::string& run) const {
    return folder_.Read(run + "/model/model.safetensors");
  }
  int64_t Rows(const std::string& run) const {
    const std::string path = folder_ / (run + "/metrics.jsonl");
    return std::filesystem::exists(path) ? std::ranges::count(ReadFile(path), '\n') : 0;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(DcganCommand, PreparesPicturesLikeThoseThatItMakes) {
  std::string open = ReadFile(yaml_);
  const size_t at = open.find(", random_resized_crop: false, resize: 16, mean: 0.5, std: 0.5");
  ASSERT_NE(at, open.npos);
  open.erase(at,
             std::string(", random_resized_crop: false, resize: 16, mean: 0.5, std: 0.5").size());
  const std::string file = folder_.Write("open.yaml", open);
  const Outcome resolved = ExpectExit(0, RunPlimsoll({"config", file}));
  for (const char* line : {"\n  mean: [0.5]\n", "\n  std: [0.5]\n", "\n  resize: 16\n",
                           "\n  random_resized_crop: false\n"}) {
    EXPECT_THAT(resolved.out, HasSubstr(line));
  }
  EXPECT_THAT(resolved.err, HasSubstr("pictures as the model makes them, within ±1: "));
  // The numbers are those of a file that says it, and of the configuration that is recorded.
  ExpectExit(0, Train("told"));
  ExpectExit(0, RunPlimsoll({"train", file, "--set", "run.dir=" + folder_ / "open"}));
  EXPECT_EQ(Weights("open"), Weights("told"));
  ASSERT_EQ(
      RunPlimsoll({"train", folder_ / "open/config.yaml", "--set", "run.dir=" + folder_ / "again"})
          .exit_code,
      0);
  EXPECT_EQ(Weights("again"), Weights("told"));
  // What a file says counts.
  const Outcome other = ExpectExit(0, RunPlimsoll({"config", file, "--set", "data.mean=0.25",
                                                   "data.resize=20", "data.crop_scale=[0.5, 1]"}));
  ExpectText(other.out, {"\n  mean: [0.25]\n", "\n  resize: 20\n"});
  EXPECT_THAT(other.out, Not(HasSubstr("random_resized_crop: false")));
  // Files of one size take no settings of pictures.
  const Outcome stored =
      ExpectExit(0, RunPlimsoll({"config", file, "--set", "data.folder=" + folder_.path()}));
  EXPECT_THAT(stored.out, HasSubstr("\n  mean: [0.5]\n"));
  EXPECT_THAT(stored.out, Not(HasSubstr("\n  resize")));
  EXPECT_THAT(stored.out, Not(HasSubstr("random_resized_crop")));
}

// Ten images, as many as are held out, four in a row.
TEST_F(DcganCommand, LeavesPicturesOfWhatItMakes) {
  const Outcome outcome = ExpectExit(0, Train("run"));
  EXPECT_THAT(outcome.out,
              ContainsRegex("evaluation after 2 steps: held-out discriminator.loss [0-9.]+, "
                            "discriminator.of_real "));
  std::vector<std::vector<uint8_t>> pictures;
  for (const std::string step : {"2", "4"}) {
    const std::string path = folder_ / ("run/samples/step_" + step + ".png");
    const formats::Raster grid = formats::DecodeRaster(MappedFile(path).bytes(), path);
    EXPECT_EQ(grid.width, 4 * 16 + 3 * 2);
    EXPECT_EQ(grid.height, 3 * 16 + 2 * 2);
    EXPECT_EQ(grid.channels, 1);
    pictures.push_back(grid.pixels);
  }
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_THAT(folder_.Read("run/report.html"), HasSubstr("Images that the model makes"));
  EXPECT_THAT(folder_.Read("run/metrics.jsonl"), HasSubstr("generator.fooled"));
}

// Rows that fill up the last batch count nowhere, and no image acts on another.
TEST_F(DcganCommand, EvaluatesTheSameInAllBatches) {
  for (const std::string norm : {"batch", "spectral"}) {
    ExpectExit(0, Train(norm, {"model.discriminator_norm=" + norm}));
    for (const std::string limit : {"8", "9"}) {
      const auto evaluate = [&](const std::string& batch) {
        const Outcome outcome = ExpectExit(
            0, RunPlimsoll({"eval", folder_ / norm, "--batch", batch, "--limit", limit, "--json"}));
        return json::parse(outcome.out);
      };
      const json one = evaluate("1");
      EXPECT_EQ(one.at("targets").dump(), limit);
      for (const std::string batch : {"2", "5", "8"}) {
        const json other = evaluate(batch);
        for (const auto& [name, value] : one.items()) {
          if (name != "loss" && name.find('.') == std::string::npos) continue;
          EXPECT_NEAR(other.at(name).get<double>(), value.get<double>(), 1e-6)
              << name << ", batch " << batch << " of " << limit;
        }
      }
    }
  }
}

TEST_F(DcganCommand, ShowsTheSameImagesInAllBatches) {
  std::vector<std::string> pictures;
  for (const std::string batch : {"3", "8"}) {
    // The first evaluation is of the initial weights.
    ExpectExit(0, Train(batch, {"train.micro_batch=" + batch, "train.eval_every=4"}));
    pictures.push_back(folder_.Read(batch + "/samples/step_0.png"));
  }
  EXPECT_EQ(pictures[0], pictures[1]);
}

TEST_F(DcganCommand, RefusesWhatItCannotDo) {
  const auto expect_refused = [&](const Sets& sets, const std::vector<std::string>& parts) {
    const Outcome outcome = Train("refused", sets);
    ExpectRefusal(outcome, parts);
    EXPECT_THAT(outcome.err, Not(HasSubstr("norm_samples")));
  };
  expect_refused({"data.mixup=0.2"}, {"--set: data.mixup", "two labels", "leave it out"});
  expect_refused({"data.cutmix=1"}, {"--set: data.cutmix", "two labels"});
  for (const std::string network : {"generator", "discriminator"}) {
    expect_refused({"train.freeze=" + network + ".*"},
                   {"train.freeze: leaves the objective '" + network + "' nothing to train"});
  }
  expect_refused({"train.micro_batch=auto", "train.global_batch=8", "memory.budget=1GiB"},
                 {"train.micro_batch: auto would choose the mathematics", "give a number"});
  const Outcome plan =
      ExpectExit(2, RunPlimsoll({"plan", yaml_, "--budget", "1GiB", "--max", "train.micro_batch"}),
                 {"give a number"});
  EXPECT_THAT(plan.err, Not(HasSubstr("norm_samples")));
  const Outcome tensor = ExpectExit(2, RunPlimsoll({"plan", yaml_, "--set", "parallel.tensor=2"}));
  EXPECT_THAT(tensor.err, HasSubstr("parallel.tensor: 2 ranks would each do the same work"));
  // A folder's model is refused it as well.
  ExpectExit(0, Train("trained", {"train.eval_every=0"}));
  ExpectExit(
      2,
      RunPlimsoll(
          {"train", folder_.Write("from.yaml",
                                  "model: {init_from: " + folder_ / "trained/model" +
                                      "}\ndata: {source: images, folder: " + folder_ / "pictures" +
                                      ", random_resized_crop: false, resize: 16, mixup: 0.2}\n"
                                      "train: {steps: 1, micro_batch: 4}\n")}),
      {"from.yaml:2: data.mixup: gives images two labels"});
  // Of a part of a network the rest is trained.
  ExpectExit(0, Train("part", {"train.freeze=generator.block.0.*", "train.eval_every=0"}));
}

TEST_F(DcganCommand, HasTheSameWeightsWithSpectralNormsUnderAllPolicies) {
  std::vector<std::string> weights;
  for (const std::string policy : {"none", "block"}) {
    ExpectExit(
        0, Train(policy, {"checkpointing.policy=" + policy, "model.discriminator_norm=spectral"}));
    weights.push_back(Weights(policy));
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_THAT(weights[0], HasSubstr("discriminator.block.0.conv.parametrizations.weight.0._u"));
  EXPECT_THAT(weights[0], Not(HasSubstr("discriminator.block.1.norm")));
  EXPECT_THAT(weights[0], HasSubstr("generator.block.1.norm"));
}

// In both forms of a step, one program or several, and with loss scales so large that both
// networks skip steps at first, and again and again.
TEST_F(DcganCommand, GoesOnWithTheSameBitsAfterItWasKilled) {
  for (const std::string accumulate : {"1", "2"}) {
    const Sets sets = {"train.accumulate=" + accumulate,
                       "train.steps=600",
                       "train.eval_every=0",
                       "train.log_every=0",
                       "save.every=20",
                       "amp.dtype=fp16",
                       "amp.init_scale=1073741824",
                       "amp.growth_interval=7"};
    const std::string whole = "whole" + accumulate, run = "killed" + accumulate;
    ExpectExit(0, Train(whole, sets));
    Sets arguments = Arguments(run, sets);
    for (const int64_t rows : {50, 200}) {
      const pid_t child = StartPlimsoll(arguments, folder_.path());
      for (int i = 0; i < 3000 && Rows(run) < rows; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << folder_.Read("err");
      arguments = Arguments(run, sets);
      arguments.insert(arguments.end(), {"--resume", "auto"});
    }
    ExpectExit(0, RunPlimsoll(arguments));
    EXPECT_EQ(Weights(run), Weights(whole));
    EXPECT_EQ(Rows(run), Rows(whole));
  }
}

}  // namespace
}  // namespace plimsoll
