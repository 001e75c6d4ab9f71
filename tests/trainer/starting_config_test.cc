// plimsoll config --for: files that load as they are, with plans within their budgets.
#include "trainer/settle/starting_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "gpu/peak_rates.h"
#include "tests/support/temp_folder.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/known_gpus.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/settled_run.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::Dtype;
using config::PlaceOrAuto;
using config::RunConfig;
using testing::HasSubstr;

constexpr const char* kModel =
    "model: {family: gpt2, layers: 4, width: 256, heads: 4, vocab: 1024, sequence: 256}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 2, micro_batch: 8, accumulate: 2, eval_every: 0}\n"
    "amp: {dtype: fp16, loss_scale: dynamic}\n"
    "run: {dir: elsewhere}\n";

std::string Written(const std::string& device, const std::string& budget,
                    const runtime::GpuReport& gpus = {}) {
  const TempFolder folder;
  return StartingConfig({folder.Write("model.yaml", kModel), device, budget}, gpus);
}

RunConfig Loaded(const std::string& text) { return LoadRunText(text, "written").config; }

// The device memory that the file's plan takes.
int64_t TakenBy(RunConfig config) {
  config.memory.calibrate = false;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const SettledRun settled = Settle(config, *model);
  return BudgetOf(config).profile.ProcessBytes(Compile(*model, settled.options).plan.arena_bytes);
}

TEST(StartingConfig, OfEveryGpuTakesThePrecisionItHasAndFitsItsMemory) {
  for (const KnownGpu& gpu : KnownGpus()) {
    SCOPED_TRACE(gpu.key);
    EXPECT_NE(gpu::FindPeakRates(gpu.name), nullptr);
    const RunConfig config = Loaded(Written(gpu.key, ""));
    EXPECT_EQ(config.device, config::Device::kCuda);
    EXPECT_EQ(config.amp.dtype, gpu.major >= 8 ? Dtype::kBf16 : Dtype::kFp16);
    EXPECT_EQ(config.memory.budget->bytes, gpu.memory_bytes() * 9 / 10 >> 30 << 30);
    EXPECT_LE(TakenBy(config), config.memory.budget->bytes);
  }
}

TEST(StartingConfig, KeepsTheModelAndItsBatchAndReplacesTheRest) {
  const RunConfig config = Loaded(Written("h200", "24GiB"));
  EXPECT_EQ(config.model.settings.Int("layers"), 4);
  EXPECT_EQ(config.train.steps, 2);
  EXPECT_EQ(config.train.micro_batch * config.train.accumulate, 16);
  EXPECT_EQ(config.checkpointing.policy, CheckpointPolicy::kNone);
  EXPECT_NE(config.run.dir, "elsewhere");
  EXPECT_FALSE(config.IsSet("amp.loss_scale"));
}

// A batch norm sees its micro-batch, which no choice may change, on however many GPUs.
TEST(StartingConfig, KeepsTheMicroBatchOfABatchNorm) {
  const TempFolder folder;
  const std::string model = folder.Write("model.yaml", R"(
model: {family: resnet, depth: 20, image_size: 32, classes: 10}
data: {source: synthetic_images}
train: {steps: 2, micro_batch: 24, accumulate: 3, eval_every: 0}
)");
  const RunConfig config = Loaded(StartingConfig({model, "h200", "24GiB"}, {}));
  EXPECT_EQ(config.train.micro_batch, 24);
  EXPECT_EQ(config.train.accumulate, 3);
  EXPECT_FALSE(config.IsSet("train.global_batch"));
}

// Images are no tokens: GPT-3's batches say nothing of them.
TEST(StartingConfig, KeepsTheBatchOfImages) {
  const RunConfig config = Loaded(StartingConfig({"vit-large", "h200", ""}, {}));
  EXPECT_EQ(config.train.global_batch, 32);
}

TEST(StartingConfig, SmallerBudgetsCutTheBatchOrRecompute) {
  const RunConfig ample = Loaded(Written("cpu", "1GiB"));
  const int64_t whole = TakenBy(ample);
  const RunConfig tight = Loaded(Written("cpu", std::to_string(whole - 1) + "B"));
  EXPECT_LT(TakenBy(tight), whole);
  EXPECT_TRUE(tight.train.micro_batch < ample.train.micro_batch ||
              tight.checkpointing.policy == CheckpointPolicy::kAuto);
  EXPECT_EQ(tight.train.micro_batch * tight.train.accumulate, 16);
}

TEST(StartingConfig, PutsTheStateOnTheHostWhereNothingFitsOtherwise) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: gpt2, layers: 8, width: 768, heads: 12, vocab: 256, sequence: 64}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1}\n");
  const RunConfig config = Loaded(StartingConfig({model, "h200", "1200MiB"}, {}));
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost);
  EXPECT_LE(TakenBy(config), int64_t{1200} << 20);
}

// Weights and gradients follow the state to the host where it alone does not make room.
TEST(StartingConfig, LeavesTheRestToTheSolverWhereTheStateIsNotEnough) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: llama, layers: 8, width: 768, heads: 12, kv_heads: 12, ffn_width: 2048, "
      "vocab: 256, sequence: 64, tied: false}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1}\n"
      "optimizer: {clip_grad_norm: 0}\n");
  const std::string written = StartingConfig({model, "h200", "810MiB"}, {});
  const RunConfig config = Loaded(written);
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost) << written;
  EXPECT_EQ(config.memory.weights, PlaceOrAuto::kHost);
  EXPECT_EQ(config.optimizer.in_backward, config::OnOrAuto::kOn);
  EXPECT_LE(TakenBy(config), int64_t{810} << 20);
}

// Where the parameters alone take more than the budget, weights live on the host, and the file says
// what that takes.
TEST(StartingConfig, ALargeModelOnASmallGpuHasItsWeightsOnTheHost) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: llama, layers: 24, width: 1024, heads: 8, kv_heads: 8, ffn_width: 8192, "
      "vocab: 1024, sequence: 128}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1, global_batch: 2}\n");
  const std::string written = StartingConfig({model, "rtx4090", "1400MiB"}, {});
  EXPECT_THAT(written, testing::ContainsRegex(
                           "# Takes 1.[0-9]+ GiB of the GPU and 1?[0-9.]+ GiB of the host, "
                           "pinned.\n# By built-in rates a step of 256 tokens takes about [0-9.]+ "
                           "ms, [0-9.k]+ tokens/s.\n# To fine-tune a checkpoint"));
  RunConfig config = Loaded(written);
  EXPECT_EQ(config.memory.device, "4090");
  EXPECT_EQ(config.memory.weights, PlaceOrAuto::kHost);
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost);
  config.planned_gpu = config.memory.device;
  EXPECT_LE(TakenBy(config), int64_t{1400} << 20);
}

TEST(StartingConfig, SaysWhatWouldFitWhereNothingDoes) {
  // Small: each change is planned.
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: gpt2, layers: 1, width: 256, heads: 4, vocab: 256, sequence: 64}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 2}\n");
  try {
    StartingConfig({model, "h200", "604MiB"}, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    EXPECT_THAT(error.what(), HasSubstr("config --for: memory.budget: 604 MiB"));
  }
}

TEST(StartingConfig, LargeModelsOnGpusTakeTheBatchOfTheirSize) {
  const RunConfig config =
      Loaded(StartingConfig({"configs/models/gpt2-124m.yaml", "a100", "30GiB"}, {}));
  EXPECT_EQ(*config.train.global_batch * config.model.sequence(), 1 << 19);
}

TEST(StartingConfig, SaysWhetherThisBuildHasCodeForTheGpu) {
  EXPECT_THAT(Written("t4", ""), HasSubstr("this build has no CUDA"));
  runtime::GpuReport build;
  build.cuda_build = true;
  build.architectures = "80,90";
  EXPECT_THAT(Written("h100", "", build), HasSubstr("this build has code for it"));
  EXPECT_THAT(Written("4090", "", build), HasSubstr("this build has code for it"));
  const std::string t4 = Written("t4", "", build);
  EXPECT_THAT(t4, HasSubstr("this build has no code for it"));
  EXPECT_THAT(t4, HasSubstr("CUDA_ARCHITECTURES=75"));
  EXPECT_THAT(Written("v100", "", build), HasSubstr("no build has code for it"));
}

TEST(StartingConfig, WithoutADeviceIsForWhatIsHere) {
  EXPECT_EQ(Loaded(Written("", "1GiB")).device, config::Device::kCpu);
  runtime::GpuReport gpus;
  gpus.cuda_build = true;
  gpus.architectures = "75";
  runtime::GpuFacts gpu;
  gpu.name = "Tesla T4";
  gpu.major = 7;
  gpu.minor = 5;
  gpu.total_bytes = int64_t{15} << 30;
  gpu.visible = true;
  gpus.gpus = {gpu};
  const std::string text = Written("", "", gpus);
  EXPECT_THAT(text, HasSubstr("Tesla T4"));
  EXPECT_EQ(Loaded(text).memory.budget->bytes, int64_t{13} << 30);
}

TEST(StartingConfig, FindsAShippedFileAnywhere) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(FindModelFile("vit-base"), "configs/models/vit-base.yaml");
  EXPECT_EQ(FindModelFile("configs/models/vit-base.yaml"), "configs/models/vit-base.yaml");
  std::filesystem::current_path(before);
}

TEST(StartingConfig, CardsHaveSeveralNames) {
  for (const char* name : {"4090", "rtx4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"}) {
    EXPECT_STREQ(RequireGpu(name).key, "4090") << name;
  }
  EXPECT_STREQ(RequireGpu("a100-80gb").key, "a100");
  EXPECT_STREQ(RequireGpu("A100-40GB").key, "a100-40gb");
  EXPECT_STREQ(RequireGpu("3090").key, "3090");
  EXPECT_STREQ(RequireGpu("tesla-t4").key, "t4");
  EXPECT_THROW(RequireGpu("a100-20gb"), UserError);
  EXPECT_THROW(RequireGpu(""), UserError);
}

TEST(StartingConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Written("h2000", ""), UserError);
  EXPECT_THROW(Written("h200", "much"), UserError);
  EXPECT_EQ(FindModelFile("gpt2-124m"), "configs/models/gpt2-124m.yaml");
  try {
    FindModelFile("gpt2-125m");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "--for gpt2-125m: no such model; did you mean gpt2-124m?");
  }
}

}  // namespace
}  // namespace plimsoll::trainer
