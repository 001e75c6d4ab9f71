// Recipes of image models as users train them (docs/recipes.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/model_safetensors.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using Sets = std::vector<std::string>;

class Recipes : public testing::Test {
 protected:
  Recipes() {
    data::WriteIdxFolder(folder_, 40, 10);
    WriteFile(yaml_,
              "model: {image_size: 8, channels: 1, classes: 10}\n"
              "data: {source: images, folder: " +
                  folder_.path() +
                  ", pad_to: 8}\n"
                  "train: {micro_batch: 8, threads: 1, log_every: 1}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "memory: {summary: none, calibrate: false}\n");
  }

  // A ResNet, unless `sets` begin with another family.
  Outcome Run(const std::string& command, Sets sets, const Sets& more = {}) const {
    if (sets.empty() || !sets.front().starts_with("model.family")) {
      sets.insert(sets.begin(), {"model.family=resnet", "model.depth=8"});
    }
    return RunPlimsoll(WithSets({command, yaml_}, sets, more));
  }
  Outcome Train(const std::string& run, Sets sets, const Sets& more = {}) const {
    sets.push_back("run.dir=" + folder_ / run);
    return Run("train", sets, more);
  }
  // The values of `key` in the rows of metrics.jsonl that have it.
  std::vector<double> Values(const std::string& run, const std::string& key) const {
    std::vector<double> values;
    for (const json& row : JsonLines(folder_.Read(run + "/metrics.jsonl"))) {
      if (row.contains(key)) values.push_back(row[key]);
    }
    return values;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(Recipes, EpochsFollowTheData) {
  // 40 images, 8 a step: 5 steps an epoch.
  const Sets sets = {"train.epochs=2.5", "train.eval_every_epochs=1", "schedule.name=multistep",
                     "schedule.milestone_epochs=[1, 2]", "schedule.warmup_epochs=0.4"};
  const Outcome outcome = ExpectExit(0, Train("run", sets));
  ExpectText(outcome.out, {"step  4/13  ", "epoch 1.00/2.6", "evaluation after 5 steps",
                           "evaluation after 10 steps", "evaluation after 13 steps"});
  const std::vector<double> rates = Values("run", "lr");
  ASSERT_EQ(rates.size(), 13u);
  EXPECT_FLOAT_EQ(rates[0], 1e-2 / 3);
  EXPECT_FLOAT_EQ(rates[4], 1e-2);
  EXPECT_FLOAT_EQ(rates[5], 1e-3);
  EXPECT_FLOAT_EQ(rates[10], 1e-4);
  EXPECT_THAT(folder_.Read("run/config.yaml"), HasSubstr("# steps: 13  (follows)"));

  const Outcome plan = ExpectExit(0, Run("plan", sets));
  EXPECT_THAT(plan.out, HasSubstr("2.6 epochs of 5 steps: 13 steps"));
}

TEST_F(Recipes, ARunGoesOnForMoreEpochs) {
  ExpectExit(0, Train("run", {"train.epochs=1", "save.every=5"}));
  // The file has not changed, and no longer fits.
  ExpectExit(2, Train("run", {"train.eval_every=0"}, {"--resume", "auto"}),
             {"train.epochs: 0, in the snapshot 1"});
  ExpectExit(0, Train("run", {"train.epochs=2", "save.every=5"}, {"--resume", "auto"}));
  EXPECT_EQ(Values("run", "lr").size(), 10u);
}

TEST_F(Recipes, DataWithoutEpochsIsRefused) {
  const Sets sets = {"train.epochs=1", "data.source=synthetic_images"};
  ExpectExit(2, Train("run", sets), {"--set: train.epochs: the data has no epochs"});
  // A plan doesn't need the steps.
  const Outcome plan = ExpectExit(0, Run("plan", sets));
  EXPECT_THAT(plan.err, HasSubstr("the steps that the epochs take stay open"));
}

// Whole samples of a branch are left out in training, and drawn alike when they are computed again.
TEST_F(Recipes, DropPathIsBitEqualUnderCheckpointing) {
  for (const Sets& model : {Sets{"model.family=resnet", "model.depth=8"},
                            Sets{"model.family=vit", "model.layers=3", "model.width=16",
                                 "model.heads=2", "model.patch=4", "model.dropout=0.1"}}) {
    const auto losses = [&](const std::string& run, Sets sets) {
      sets.insert(sets.begin(), model.begin(), model.end());
      sets.insert(sets.end(), {"train.steps=4", "train.eval_every=4", "train.accumulate=2"});
      ExpectExit(0, Train(run, sets, {}));
      std::vector<double> values = Values(run, "loss");
      EXPECT_GE(values.size(), 4u);
      std::filesystem::remove_all(folder_ / run);
      return values;
    };
    const std::vector<double> none = losses("none", {"model.drop_path=0.5"});
    EXPECT_NE(none, losses("without", {}));
    for (const Sets& policy :
         {Sets{"checkpointing.policy=block"},
          Sets{"checkpointing.policy=every", "checkpointing.every=2"},
          Sets{"checkpointing.policy=selective", "checkpointing.recompute=activations"}}) {
      Sets sets = {"model.drop_path=0.5"};
      sets.insert(sets.end(), policy.begin(), policy.end());
      EXPECT_EQ(none, losses("policy", sets)) << policy.front();
    }
  }
}

TEST_F(Recipes, DropPathNeedsWholeSamples) {
  ExpectExit(2,
             Run("plan", {"model.family=vit", "model.layers=3", "model.width=16", "model.heads=2",
                          "model.patch=4", "model.drop_path=0.1", "parallel.tensor=2",
                          "parallel.sequence=true"}),
             {"parallel.sequence: tensor ranks have a part of each sample"});
}

// One step of plain gradient descent moves each parameter by its own learning rate.
TEST_F(Recipes, LayerDecayGivesEachLayerItsRate) {
  const auto trained = [&](const std::string& run, const Sets& more) {
    Sets sets = {"train.steps=1",
                 "train.eval_every=0",
                 "optimizer.name=sgd",
                 "optimizer.momentum=0",
                 "optimizer.weight_decay=0",
                 "schedule.name=constant",
                 "optimizer.clip_grad_norm=0"};
    sets.insert(sets.end(), more.begin(), more.end());
    ExpectExit(0, Train(run, sets));
    return formats::ModelSafetensors(folder_ / run + "/model");
  };
  const auto begun = trained("begun", {"optimizer.lr=0"});
  const auto all = trained("all", {"optimizer.lr=0.5"});
  const auto decayed = trained("decayed", {"optimizer.lr=0.5", "optimizer.layer_decay=0.5"});
  const auto values = [](const formats::ModelSafetensors& model, const std::string& name) {
    std::vector<float> read(static_cast<size_t>(model.Require(name).elements));
    model.ReadFloat32(name, read.data(), std::ssize(read));
    return read;
  };
  // Depth 8 has three blocks.
  for (const auto& [name, factor] : std::map<std::string, double>{{"conv1.weight", 0.0625},
                                                                  {"layer1.0.conv1.weight", 0.125},
                                                                  {"layer2.0.bn2.bias", 0.25},
                                                                  {"layer3.0.conv2.weight", 0.5},
                                                                  {"fc.weight", 1}}) {
    const std::vector<float> a = values(begun, name), b = values(all, name),
                             c = values(decayed, name);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(c[i] - a[i], factor * (b[i] - a[i]), 1e-6 * (1 + std::abs(b[i]))) << name;
    }
    EXPECT_NE(a, b) << name;
  }
}

// Samples depend on their numbers alone, also where they are mixed: cutting the batch otherwise
// changes nothing but rounding.
TEST_F(Recipes, MixedImagesTrainTheSameHoweverTheBatchIsCut) {
  const auto losses = [&](const std::string& run, const Sets& more) {
    Sets sets = {"model.family=vit", "model.layers=2",     "model.width=16",
                 "model.heads=2",    "model.patch=4",      "data.mixup=0.8",
                 "data.cutmix=1",    "data.randaugment=2", "data.erasing=0.25",
                 "train.steps=6",    "train.eval_every=3", "data.flip=true",
                 "model.dropout=0",  "data.crop_padding=1"};
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome outcome = ExpectExit(0, Train(run, sets));
    EXPECT_THAT(outcome.out, HasSubstr("mixed (CutMix 1)"));
    return Values(run, "loss");
  };
  const std::vector<double> whole = losses("whole", {"train.micro_batch=8"});
  const std::vector<double> cut = losses("cut", {"train.micro_batch=2", "train.accumulate=4"});
  ASSERT_EQ(whole.size(), cut.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], cut[i], 1e-4) << i;
  EXPECT_THAT(folder_.Read("whole/config.yaml"), HasSubstr("mixed_labels: true"));
}

TEST_F(Recipes, MixingNeedsTheLossOfTwoLabels) {
  ExpectExit(2, Train("run", {"data.mixup=0.2", "model.mixed_labels=false"}),
             {"data.mixup and data.cutmix give images two labels"});
}

TEST_F(Recipes, WorkersChangeNothing) {
  const auto losses = [&](const std::string& run, const std::string& workers) {
    const Outcome outcome =
        ExpectExit(0, Train(run, {"model.family=resnet", "model.depth=8", "data.workers=" + workers,
                                  "data.mixup=0.4", "data.randaugment=2", "train.steps=12",
                                  "save.every=5", "train.accumulate=2", "train.eval_every=4"}));
    const bool prepares = outcome.out.find("can prepare") != std::string::npos;
    EXPECT_EQ(prepares, workers != "0") << outcome.out;
    return Values(run, "loss");
  };
  const std::vector<double> none = losses("none", "0");
  EXPECT_EQ(losses("one", "1"), none);
  EXPECT_EQ(losses("three", "3"), none);
  // A run that goes on may have another number of them.
  ExpectExit(0, Train("one",
                      {"model.family=resnet", "model.depth=8", "data.workers=2", "data.mixup=0.4",
                       "data.randaugment=2", "train.steps=12", "save.every=5", "train.accumulate=2",
                       "train.eval_every=4"},
                      {"--resume", folder_ / "one/snapshots/step-000000010"}));
  EXPECT_EQ(Values("one", "loss"), none);
}

}  // namespace
}  // namespace plimsoll
