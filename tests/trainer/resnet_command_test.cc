// A ResNet as users train it: what a run leaves, what another starts from, and what a micro-batch
// that is part of the mathematics may not be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "formats/model_safetensors.h"
#include "tests/data/image_folders.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;
using testing::Not;

class ResNetCommand : public testing::Test {
 protected:
  ResNetCommand() { data::WriteIdxFolder(folder_, 40, 10); }

  // `model` without braces, and further sections.
  void Write(const std::string& model, const std::string& more = "") const {
    WriteFile(yaml_, "model: {" + model + "}\ndata: {source: images, folder: " + folder_.path() +
                         ", pad_to: 8}\n" + more +
                         "optimizer: {lr: 1e-2}\n"
                         "memory: {summary: false, calibrate: false}\n");
  }
  static std::string Training(const std::string& what = "micro_batch: 8") {
    return "train: {steps: 3, eval_every: 3, log_every: 0, threads: 1, " + what + "}\n";
  }
  Outcome Train(const std::string& run) const {
    return RunPlimsoll({"train", yaml_, "--set", "run.dir=" + folder_ / run});
  }
  void ExpectRefused(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& parts) const {
    ExpectRefusal(RunPlimsoll(arguments), parts);
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string small_ = "family: resnet, depth: 8, image_size: 8, channels: 1, classes: 10";
};

std::vector<float> Tensor(const std::string& folder, const std::string& name) {
  const formats::ModelSafetensors file(folder);
  std::vector<float> values(static_cast<size_t>(file.Require(name).elements));
  file.ReadFloat32(name, values.data(), std::ssize(values));
  return values;
}

TEST_F(ResNetCommand, StartsFromItsModelWithOtherClasses) {
  Write(small_, Training());
  ExpectExit(0, Train("first"));
  const std::string model = folder_ / "first/model";
  const formats::ModelSafetensors written(model);
  EXPECT_EQ(written.Require("layer3.0.downsample.0.weight").shape,
            (std::vector<int64_t>{64, 32, 1, 1}));
  EXPECT_EQ(written.Require("bn1.num_batches_tracked").type, formats::TensorType::kI64);
  EXPECT_EQ(written.Require("bn1.num_batches_tracked").shape, std::vector<int64_t>());

  // As it is.
  Write("init_from: " + model, Training());
  const Outcome same = ExpectExit(0, Train("same"));
  EXPECT_THAT(same.out, Not(HasSubstr("afresh")));

  // With another head; frozen norms keep what they have.
  Write("init_from: " + model + ", classes: 12, norms: frozen, seed: 5", Training());
  const Outcome other = ExpectExit(0, Train("other"));
  EXPECT_THAT(other.err, testing::StartsWith("pictures as " + model));  // and nothing else
  EXPECT_EQ(std::ranges::count(other.err, '\n'), 1);
  EXPECT_THAT(other.out, HasSubstr("model.init_from: head.weight, head.bias start afresh: " +
                                   model + " has none of their shapes"));
  EXPECT_THAT(ReadFile(folder_ / "other/config.yaml"), HasSubstr("classes: 12"));
  EXPECT_EQ(formats::ModelSafetensors(folder_ / "other/model").Require("fc.weight").shape,
            (std::vector<int64_t>{12, 64}));
  for (const char* state : {"bn1.running_mean", "layer2.0.bn2.running_var"}) {
    EXPECT_EQ(Tensor(folder_ / "other/model", state), Tensor(model, state)) << state;
    EXPECT_NE(Tensor(folder_ / "same/model", state), Tensor(model, state)) << state;
  }
  ExpectExit(0, RunPlimsoll({"eval", folder_ / "other"}));
  ExpectExit(0, RunPlimsoll({"export", folder_ / "other", "--to", folder_ / "exported"}));

  // What the weights fix, or what their family doesn't know, is refused.
  Write("init_from: " + model + ", depth: 14", Training());
  ExpectRefused({"train", yaml_}, {"model.depth", "comes from the checkpoint"});
  Write("init_from: " + model + ", sequence: 14", Training());
  ExpectRefused({"train", yaml_}, {"model.sequence", "no meaning", "resnet"});
}

TEST_F(ResNetCommand, RefusesLabelsBeyondItsClasses) {
  Write("family: resnet, depth: 8, image_size: 8, channels: 1, classes: 4", Training());
  ExpectRefused({"train", yaml_}, {"train-labels-idx1-ubyte: image ", "has label ", "4 classes",
                                   "raise model.classes"});
}

TEST_F(ResNetCommand, ChoosesNoMicroBatchThatChangesTheMathematics) {
  Write(small_, Training("micro_batch: auto, global_batch: 16"));
  ExpectRefused({"plan", yaml_, "--budget", "64MiB"},
                {"train.micro_batch", "auto", "act on one another", "model.norm_samples"});
  Write(small_, Training());
  ExpectRefused({"plan", yaml_, "--budget", "64MiB", "--max", "train.micro_batch"},
                {"train.micro_batch", "--max", "model.norm_samples"});
  // What a budget's error proposes.
  Write(small_, Training("micro_batch: 16") + "checkpointing: {policy: none}\n");
  const Outcome over = RunPlimsoll({"plan", yaml_, "--budget", "2800KiB"});
  EXPECT_NE(over.exit_code, 0) << over.out;
  EXPECT_THAT(over.err, Not(HasSubstr("train.micro_batch")));

  // Groups make it free again.
  Write(small_ + ", norm_samples: 4", Training("micro_batch: auto, global_batch: 16"));
  ExpectExit(0, RunPlimsoll({"plan", yaml_, "--budget", "64MiB"}));
  Write(small_ + ", norm_samples: 4", Training());
  const Outcome most = ExpectExit(
      0, RunPlimsoll({"plan", yaml_, "--budget", "64MiB", "--max", "train.micro_batch"}));
  EXPECT_THAT(most.out, testing::ContainsRegex("train.micro_batch: [0-9]*[02468] is the largest"));

  Write(small_ + ", norm_samples: 3", Training());
  ExpectRefused({"train", yaml_}, {"train.micro_batch", "8 samples", "multiple of 3"});
  Write(small_ + ", norm_samples: 4", Training() + "parallel: {sync_norm: true}\n");
  ExpectRefused({"train", yaml_}, {"parallel.sync_norm", "leave it out"});
}

TEST_F(ResNetCommand, RefusesOneValuePerChannel) {
  // 5 × 5 pixels are one behind the first stage of a large ResNet.
  WriteFile(yaml_,
            "model: {family: resnet, depth: 18, image_size: 5, channels: 1, classes: 10}\n"
            "data: {source: images, folder: " +
                folder_.path() + ", pad_to: 5}\n" + Training("micro_batch: 1"));
  ExpectRefused({"train", yaml_}, {"stage.1.block.0.norm_1", "one value", "train.micro_batch"});
}

}  // namespace
}  // namespace plimsoll
