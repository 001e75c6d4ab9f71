// optimizer.name: muon: which matrices it updates, where it is refused, and what it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/config/load.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/muon_matrices.h"

namespace plimsoll::trainer {
namespace {

using testing::UnorderedElementsAre;
using Stacked = optim::MuonOptions::Stacked;

const std::string kMuon = "optimizer: {name: muon}\n";
const std::string kTokens = "data: {synthetic: true}\n";

std::string Gpt2(const std::string& more = "") {
  return "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8" + more +
         "}\n" + kTokens;
}

CompileOptions OptionsOf(const std::string& text, int64_t ranks = 1) {
  const config::RunConfig config = LoadRunText(text, "run.yaml", {}, ranks).config;
  return CompileFrom(config, *ModelFrom(config));
}

std::optional<std::string> Refusal(const std::string& text, int64_t ranks = 1) {
  return MessageOf<UserError>([&] { (void)OptionsOf(text, ranks); });
}

TEST(Muon, UpdatesLinearLayersInBlocks) {
  EXPECT_THAT(OptionsOf(Gpt2() + kMuon).update.muon.matrices,
              UnorderedElementsAre(Stacked{"block.0.attn.qkv.weight", {16, 16, 16}},
                                   Stacked{"block.0.attn.proj.weight", {16}},
                                   Stacked{"block.0.mlp.fc.weight", {64}},
                                   Stacked{"block.0.mlp.proj.weight", {16}}));
  const std::string llama =
      "model: {family: llama, layers: 1, width: 16, heads: 4, kv_heads: 2, ffn_width: 24, vocab: "
      "64, sequence: 8}\n" +
      kTokens;
  EXPECT_THAT(OptionsOf(llama + kMuon).update.muon.matrices,
              UnorderedElementsAre(Stacked{"block.0.attn.qkv.weight", {16, 8, 8}},
                                   Stacked{"block.0.attn.proj.weight", {16}},
                                   Stacked{"block.0.mlp.gate_up.weight", {24, 24}},
                                   Stacked{"block.0.mlp.down.weight", {16}}));
}

TEST(Muon, HasItsOwnDefaults) {
  const optim::UpdateOptions update = OptionsOf(Gpt2() + kMuon + "amp: {dtype: bf16}\n").update;
  EXPECT_EQ(update.momentum, 0.95);
  EXPECT_TRUE(update.nesterov);
  EXPECT_EQ(update.muon.newton_schulz_steps, 5);
  EXPECT_EQ(update.muon.adjust_lr, optim::MuonOptions::AdjustLr::kMatchRmsAdamW);
  EXPECT_EQ(update.muon.dtype, graph::DType::kBFloat16);
  const optim::UpdateOptions given =
      OptionsOf(Gpt2() + "optimizer: {name: muon, momentum: 0.8, nesterov: false}\n").update;
  EXPECT_EQ(given.momentum, 0.8);
  EXPECT_FALSE(given.nesterov);
  EXPECT_EQ(given.muon.dtype, graph::DType::kFloat32);
  EXPECT_EQ(OptionsOf(Gpt2() + "optimizer: {name: sgd}\n").update.momentum, 0.9);
}

TEST(Muon, IsRefusedWhereItHasNoWholeMatrices) {
  EXPECT_EQ(Refusal(Gpt2() + kMuon), std::nullopt);
  EXPECT_EQ(Refusal(Gpt2() + kMuon + "parallel: {tensor: 2}\n", 2),
            "run.yaml:3: optimizer.name: muon needs whole matrices, which 2 tensor ranks split; "
            "use parallel.tensor: 1, or adamw");
  EXPECT_EQ(Refusal(Gpt2() + kMuon + "lora: {rank: 2}\n"),
            "run.yaml:3: optimizer.name: muon updates the matrices of the model, which are frozen "
            "with adapters (lora); use adamw");
  EXPECT_EQ(Refusal(Gpt2() + kMuon + "train: {freeze: [\"block.*\"]}\n"),
            "run.yaml:3: optimizer.name: all matrices that muon would update are frozen by "
            "train.freeze (run.yaml:4); use adamw");
  EXPECT_EQ(Refusal("model: {family: resnet, depth: 8, image_size: 16, classes: 5}\n"
                    "data: {source: synthetic_images}\n" +
                    kMuon),
            "run.yaml:3: optimizer.name: muon updates the weights of linear layers in blocks, and "
            "models of family resnet have none; use adamw or sgd");
}

TEST(Muon, LearnsWithinItsPlan) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
    TinyRun run;
    run.amp.dtype = dtype;
    run.repeat = true;
    run.steps = 8;
    run.executor.poison = run.executor.check_arena = true;
    UseMuon(run);
    const TinyResult result = Train(run);
    EXPECT_LT(result.losses.back(), 0.99 * result.losses.front());
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
    run.threads = 1;
    ExpectSame(Train(run), result);
  }
}

// A skipped step leaves weights and momentum as they were.
TEST(Muon, SkipsStepsThatOverflow) {
  TinyRun run;
  run.amp.dtype = graph::DType::kFloat16;
  run.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  run.init_loss_scale = 0x1p40;  // overflows
  run.steps = 1;
  UseMuon(run);
  const TinyResult once = Train(run);
  run.steps = 2;
  const TinyResult twice = Train(run);
  EXPECT_EQ(twice.weights, once.weights);
  const std::vector<std::byte>& momentum = twice.state.at("block.0.mlp.fc.weight.momentum");
  EXPECT_FALSE(momentum.empty());
  EXPECT_TRUE(std::ranges::all_of(momentum, [](std::byte byte) { return byte == std::byte{0}; }));
}

// The products of updates are no work of the model.
TEST(Muon, CountsTheModelsProducts) {
  const auto compiled = [](bool muon) {
    TinyRun run;
    if (muon) UseMuon(run);
    const auto model = models::MakeModel(run.spec);
    return Compile(*model, OptionsOf(run, *model, runtime::DeviceKind::kCpu));
  };
  EXPECT_EQ(compiled(true).model_flops, compiled(false).model_flops);
  EXPECT_GT(compiled(true).flops_per_step, compiled(false).flops_per_step);
}

}  // namespace
}  // namespace plimsoll::trainer
