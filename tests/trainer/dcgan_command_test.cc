// A DCGAN as users train it, from files of images: the pictures that it leaves, and its weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/raster.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/data/image_folders.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DcganCommand : public testing::Test {
 protected:
  DcganCommand() {
    data::WriteIdxFolder(folder_, 40, 10, 16, 16);
    const Outcome written =
        RunPlimsoll({"data", "images", folder_ / "pictures", "--from", folder_.path()});
    EXPECT_EQ(written.exit_code, 0) << written.err;
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

  Outcome Train(const std::string& run, const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> arguments = {"train", yaml_, "--set", "run.dir=" + folder_ / run};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    return RunPlimsoll(arguments);
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

// Ten images, as many as are held out, four in a row.
TEST_F(DcganCommand, LeavesPicturesOfWhatItMakes) {
  const Outcome outcome = Train("run");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
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

TEST_F(DcganCommand, HasTheSameWeightsWithSpectralNormsUnderAllPolicies) {
  std::vector<std::string> weights;
  for (const std::string policy : {"none", "block"}) {
    const Outcome outcome =
        Train(policy, {"checkpointing.policy=" + policy, "model.discriminator_norm=spectral"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    weights.push_back(folder_.Read(policy + "/model/model.safetensors"));
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_THAT(weights[0], HasSubstr("discriminator.block.0.conv.parametrizations.weight.0._u"));
  EXPECT_THAT(weights[0], Not(HasSubstr("discriminator.block.1.norm")));
  EXPECT_THAT(weights[0], HasSubstr("generator.block.1.norm"));
}

}  // namespace
}  // namespace plimsoll
