// Keys that have no effect, or less than they seem to, are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/config/load_text.h"

namespace plimsoll::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NoEffect, DataKeysWithoutEffectAreReported) {
  const Loaded loaded = LoadText(kBase, "run.yaml", {"data.exclude=*.dat", "data.format=text"});
  ASSERT_EQ(loaded.warnings.size(), 2u);
  EXPECT_EQ(loaded.warnings[0], "--set: data.format: has no effect with data.synthetic: true");
  EXPECT_EQ(loaded.config.data.format, DataFormat::kAuto);
}

TEST(NoEffect, KeysOfOtherPackingAreReported) {
  const auto warnings = [](const std::string& data) {
    return LoadText(kModel + "data: {" + data + "}", "run.yaml").warnings;
  };
  const std::string examples = "train: a.jsonl, tokenizer: byte";
  EXPECT_THAT(warnings(examples + ", packing: best_fit, too_long: drop"), IsEmpty());
  EXPECT_THAT(warnings(examples + ", too_long: drop"), IsEmpty());
  EXPECT_THAT(warnings(examples + ", packing: concatenate, documents: apart"), IsEmpty());
  EXPECT_THAT(warnings(examples + ", packing: concatenate, too_long: drop"),
              ElementsAre("run.yaml:2: data.too_long: has no effect unless data.packing is "
                          "best_fit or none"));
  EXPECT_THAT(warnings(examples + ", documents: apart"),
              ElementsAre("run.yaml:2: data.documents: has no effect with data.packing: best_fit, "
                          "which keeps examples apart"));
  EXPECT_THAT(warnings(examples + ", packing: none, documents: apart"),
              ElementsAre("run.yaml:2: data.documents: has no effect with data.packing: none, "
                          "which keeps examples apart"));
  EXPECT_THAT(warnings("synthetic: true, packing: none, documents: apart"),
              ElementsAre("run.yaml:2: data.packing: has no effect with data.synthetic: true",
                          "run.yaml:2: data.documents: has no effect with data.synthetic: true"));
  ExpectUserError([&] { warnings("train: a.bin, packing: best_fit"); },
                  {"run.yaml:2: data.packing: best_fit", "*.jsonl", "data.documents: apart"});
  ExpectUserError([&] { warnings("train: a.jsonl, packing: best_fit"); },
                  {"run.yaml:2: data.packing: best_fit", "*.jsonl", "set data.tokenizer"});
  ExpectUserError([&] { warnings("train: a.bin, documents: apart"); },
                  {"run.yaml:2: data.documents", "data.tokenizer", "joined"});
  EXPECT_THAT(warnings("train: a.bin, tokenizer: byte, documents: apart"), IsEmpty());
}

TEST(NoEffect, KeysOfChatsWithoutTextAreReported) {
  const std::vector<std::string> chats = {"data.loss_on=all", "data.chat_template=chatml"};
  EXPECT_THAT(LoadText(kBase, "run.yaml", chats).warnings,
              ElementsAre("--set: data.chat_template: has no effect with data.synthetic: true",
                          "--set: data.loss_on: has no effect with data.synthetic: true"));
}

TEST(NoEffect, RecomputingTheWholeModelAtOnceIsReported) {
  const std::string every = kBase + "checkpointing: {policy: every, every: ";
  EXPECT_THAT(LoadText(every + "2}\n", "run.yaml", {"model.layers=4"}).warnings, IsEmpty());
  EXPECT_THAT(LoadText(every + "4}\n", "run.yaml", {"model.layers=4"}).warnings,
              ElementsAre("run.yaml:3: checkpointing.every: 4 of 4 blocks: the whole model is "
                          "recomputed at once, which saves next to nothing; about 2 would do"));
}

TEST(NoEffect, KeysWithoutEffectAreReported) {
  const Loaded loaded =
      LoadText(kBase + "optimizer: {name: sgd, betas: [0.1, 0.2]}\nschedule:\n  min_lr: 1e-5\n",
               "run.yaml", {"schedule.name=constant"});
  EXPECT_THAT(
      loaded.warnings,
      ElementsAre("run.yaml:3: optimizer.betas: has no effect with optimizer.name: sgd",
                  "run.yaml:5: schedule.min_lr: has no effect with schedule.name: constant"));
  EXPECT_THAT(loaded.config.optimizer.betas, ElementsAre(0.9, 0.95));
  ExpectRoundTrip(loaded);
  EXPECT_THAT(
      LoadText(kModel + "data: {train: a}\ntrain: {eval_every: 5}", "r.yaml").warnings,
      ElementsAre(
          "r.yaml:3: train.eval_every: has no effect without data.eval or data.eval_fraction"));
}

std::vector<std::string> WarningsAboutAmp(const std::string& amp) {
  return LoadText(kBase + "amp:\n  " + amp, "run.yaml").warnings;
}

TEST(NoEffect, AWarmUpOfNoAveragesIsReported) {
  EXPECT_THAT(LoadText(kBase + "optimizer: {ema: 0.9, ema_warmup: true}", "run.yaml").warnings,
              ElementsAre());
  EXPECT_THAT(LoadText(kBase + "optimizer: {ema_warmup: true}", "run.yaml").warnings,
              ElementsAre("run.yaml:3: optimizer.ema_warmup: has no effect without optimizer.ema"));
}

TEST(NoEffect, UpdatesThatWaitForAllGradientsAreReported) {
  const auto warnings = [](const std::string& more) {
    return LoadText(kBase + more, "run.yaml").warnings;
  };
  const std::string key = "optimizer.in_backward: has no effect: ";
  EXPECT_THAT(warnings("optimizer: {in_backward: true, clip_grad_norm: 0}"), ElementsAre());
  EXPECT_THAT(warnings("optimizer: {in_backward: true}"),
              ElementsAre("run.yaml:3: " + key +
                          "optimizer.clip_grad_norm: 1 needs the norm of all gradients first; set "
                          "it to 0, or optimizer.clip_by to parameter or last_step"));
  for (const char* by : {"parameter", "last_step"}) {
    EXPECT_THAT(warnings(std::string("optimizer: {in_backward: true, clip_by: ") + by + "}"),
                ElementsAre());
  }
  EXPECT_THAT(warnings("optimizer: {in_backward: true, clip_grad_norm: 0}\n"
                       "divergence: {action: skip}"),
              ElementsAre("run.yaml:3: " + key +
                          "divergence.action: skip needs to see all gradients first; set stop or "
                          "rollback"));
  EXPECT_THAT(warnings("optimizer: {in_backward: true, clip_grad_norm: 0}\namp: {dtype: fp16}"),
              ElementsAre("run.yaml:3: " + key +
                          "loss scaling needs to see all gradients first; use amp.dtype: bf16"));
  EXPECT_THAT(warnings("optimizer: {in_backward: true, clip_grad_norm: 0, place: host}"),
              ElementsAre());
}

TEST(NoEffect, GradientsOnTheHostThatNothingCarriesAreReported) {
  const auto warnings = [](const std::string& more) {
    return LoadText(kBase + "memory: {gradients: host}" + more, "run.yaml").warnings;
  };
  EXPECT_THAT(warnings("\ntrain: {accumulate: 2}"), ElementsAre());
  EXPECT_THAT(warnings(""),
              ElementsAre("run.yaml:3: memory.gradients: host has no effect without "
                          "train.accumulate: gradients of one micro-step are temporaries"));
  const std::string blocks_first = "\ntrain: {accumulate: 2, blocks_first: true}";
  EXPECT_THAT(warnings(blocks_first), ElementsAre());
  EXPECT_THAT(warnings(blocks_first + "\noptimizer: {in_backward: true, clip_grad_norm: 0}"),
              ElementsAre("run.yaml:3: memory.gradients: host has no effect with "
                          "train.blocks_first and optimizer.in_backward: updates take gradients "
                          "block by block"));
}

TEST(NoEffect, BlocksOnTheHostWithoutAPlaceThereAreReported) {
  const auto warnings = [](const std::string& more) {
    return LoadText(kBase + "memory: {host_blocks: 1" + more, "run.yaml").warnings;
  };
  EXPECT_THAT(warnings(", weights: host}"), ElementsAre());
  EXPECT_THAT(warnings("}\noptimizer: {place: host}"), ElementsAre());
  EXPECT_THAT(warnings("}"),
              ElementsAre("run.yaml:3: memory.host_blocks: has no effect without memory.weights, "
                          "memory.gradients or optimizer.place: host"));
}

TEST(NoEffect, BlocksFirstSaysWhereItHasNoEffect) {
  const auto warnings = [](const std::string& train) {
    return LoadText(kBase + "train: {blocks_first: true, " + train + "}", "run.yaml").warnings;
  };
  EXPECT_THAT(warnings("accumulate: 2"), ElementsAre());
  EXPECT_THAT(
      warnings("accumulate: 1"),
      ElementsAre("run.yaml:3: train.blocks_first: has no effect with one micro-step a step "
                  "(train.accumulate: 1)"));
  ExpectUserError(
      [&] {
        LoadText(kBase +
                     "train: {blocks_first: true, micro_batch: auto, global_batch: 4}\n"
                     "memory: {budget: 1GiB}",
                 "run.yaml");
      },
      {"run.yaml:3: train.blocks_first", "not possible with train.micro_batch: auto"});
  EXPECT_THAT(LoadText(kBase + "train: {blocks_first: true, accumulate: 2}\n"
                               "checkpointing: {policy: auto}\nmemory: {budget: 1GiB}",
                       "run.yaml")
                  .warnings,
              ElementsAre());
}

// A technique that is left open says nothing where it would have no effect.
TEST(NoEffect, TechniquesMayBeLeftOpen) {
  const Loaded loaded = LoadText(kBase +
                                     "optimizer: {in_backward: auto}\n"
                                     "train: {blocks_first: auto}\n"
                                     "memory: {gradients: auto}",
                                 "run.yaml");
  EXPECT_THAT(loaded.warnings, ElementsAre());
  EXPECT_EQ(loaded.config.optimizer.in_backward, OnOrAuto::kAuto);
  EXPECT_EQ(loaded.config.train.blocks_first, OnOrAuto::kAuto);
  EXPECT_EQ(loaded.config.memory.gradients, PlaceOrAuto::kAuto);
  EXPECT_EQ(LoadText(loaded.resolved_yaml, "again.yaml").config.optimizer.in_backward,
            OnOrAuto::kAuto);
  ExpectUserError(
      [&] { LoadText(kBase + "optimizer: {in_backward: \"true\"}", "run.yaml"); },
      {"run.yaml:3: optimizer.in_backward", "expected auto, true or false", "remove the quotes"});
}

TEST(NoEffect, KeysOfEightBitLayersThatThereAreNotAreReported) {
  EXPECT_THAT(WarningsAboutAmp("{dtype: bf16, fp8: {recipe: current, gradients: e4m3}}"),
              ElementsAre());
  EXPECT_THAT(WarningsAboutAmp("{fp8: {recipe: none}}"), ElementsAre());
  const Loaded loaded =
      LoadText(kBase + "amp:\n  dtype: bf16\n  fp8:\n    gradients: e4m3\n    skip: [block.0.*]\n",
               "run.yaml");
  EXPECT_THAT(loaded.warnings,
              ElementsAre("run.yaml:6: amp.fp8.gradients: has no effect with amp.fp8.recipe: none",
                          "run.yaml:7: amp.fp8.skip: has no effect with amp.fp8.recipe: none"));
  EXPECT_THAT(loaded.config.amp.fp8_skip, IsEmpty());
  ExpectRoundTrip(loaded);
}

TEST(NoEffect, LossScalingThatIsMissingOrOfNoUseIsReported) {
  EXPECT_THAT(WarningsAboutAmp("{dtype: fp16}"), ElementsAre());
  EXPECT_THAT(WarningsAboutAmp("{dtype: fp16, loss_scale: static, init_scale: 0.5}"),
              ElementsAre());
  EXPECT_THAT(WarningsAboutAmp("{dtype: fp16, loss_scale: dynamic, growth_interval: 3}"),
              ElementsAre());
  EXPECT_THAT(WarningsAboutAmp("{dtype: bf16, loss_scale: none, master_weights: false}"),
              ElementsAre());
  EXPECT_THAT(WarningsAboutAmp("{dtype: fp16, loss_scale: none}"),
              ElementsAre("run.yaml:4: amp.loss_scale: none with amp.dtype: fp16 loses gradients "
                          "below 6e-8; remove it, or set dynamic"));
  EXPECT_THAT(WarningsAboutAmp("{dtype: bf16, loss_scale: dynamic}"),
              ElementsAre("run.yaml:4: amp.loss_scale: dynamic is of no use with amp.dtype: bf16, "
                          "whose gradients reach down to 1e-38; remove it"));
  EXPECT_THAT(WarningsAboutAmp("{loss_scale: static}"),
              ElementsAre("run.yaml:4: amp.loss_scale: static is of no use with amp.dtype: fp32, "
                          "whose gradients reach down to 1e-38; remove it"));
  EXPECT_THAT(WarningsAboutAmp("{dtype: fp16, loss_scale: static, growth_factor: 4}"),
              ElementsAre("run.yaml:4: amp.growth_factor: has no effect with amp.loss_scale: "
                          "static"));
  const Loaded loaded =
      LoadText(kBase + "amp: {dtype: bf16, min_scale: 4, max_skips: 50}", "run.yaml");
  EXPECT_THAT(loaded.warnings,
              ElementsAre("run.yaml:3: amp.min_scale: has no effect with amp.dtype: bf16, whose "
                          "loss is not scaled"));
  EXPECT_EQ(loaded.config.amp.min_scale, 1);
  ExpectRoundTrip(loaded);
}

}  // namespace
}  // namespace plimsoll::config
