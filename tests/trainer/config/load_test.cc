// Layers, derived values, the environment, and the resolved configuration, which loads to itself.

#include "trainer/config/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/config/load_text.h"
#include "trainer/config/micro_batches.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Loads the first of `files`, which may extend the others.
Loaded LoadFiles(const std::map<std::string, std::string>& files, const std::string& first,
                 const std::vector<std::string>& sets = {}) {
  const FileReader read = [&](const std::string& path) {
    const auto found = files.find(path);
    if (found == files.end()) throw UserError(path + ": no such file");
    return found->second;
  };
  return LoadText(files.at(first), first, sets, 1, read);
}

TEST(Load, EveryKindOfValue) {
  const RunConfig config = Parse(kModel + R"(
data:
  train: [a.bin, "b*.bin"]
  eval: c.bin
  order: consecutive
train: {steps: 7, seed: +3}
optimizer:
  lr: 6e-4
  betas: [0.8, .9]
  weight_decay_groups: [{pattern: "*.norm*", weight_decay: 0}, {pattern: wte, weight_decay: 0.5}]
memory: {summary: false}
device: cpu
run: {dir: 2024}
)");
  EXPECT_THAT(config.data.train, ElementsAre(TrainSource{{"a.bin", "b*.bin"}}));
  EXPECT_THAT(config.data.eval, ElementsAre("c.bin"));
  EXPECT_EQ(config.data.order, Order::kConsecutive);
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.seed, 3);
  EXPECT_EQ(config.optimizer.lr, 6e-4);
  EXPECT_THAT(config.optimizer.betas, ElementsAre(0.8, 0.9));
  EXPECT_THAT(config.optimizer.weight_decay_groups,
              ElementsAre(WeightDecayGroup{"*.norm*", 0.0}, WeightDecayGroup{"wte", 0.5}));
  EXPECT_EQ(config.memory.summary, Summary::kNone);
  EXPECT_EQ(config.device, Device::kCpu);
  EXPECT_EQ(config.run.dir, "2024");
}

TEST(Load, SeedsOfWeightsAndDataFollowThatOfTraining) {
  const Loaded loaded = LoadText(kBase + "train: {seed: 5}\n", "run.yaml");
  EXPECT_EQ(loaded.config.model.seed, 5);
  EXPECT_EQ(loaded.config.data.seed, 5);
  ExpectRoundTrip(loaded);
  const RunConfig other = LoadText(loaded.resolved_yaml, "run.yaml", {"train.seed=6"}).config;
  EXPECT_EQ(other.model.seed, 6);
  EXPECT_EQ(other.data.seed, 6);
  const RunConfig apart =
      LoadText(kBase, "run.yaml", {"train.seed=6", "model.seed=7", "data.seed=8"}).config;
  EXPECT_EQ(apart.model.seed, 7);
  EXPECT_EQ(apart.data.seed, 8);
  EXPECT_EQ(apart.train.seed, 6);
}

TEST(Load, DefaultsOfTheFamilies) {
  const ModelConfig gpt2 = Parse(kBase).model;
  EXPECT_EQ(gpt2.settings.Int("kv_heads"), 4);
  EXPECT_EQ(gpt2.settings.Int("head_width"), 16);
  EXPECT_EQ(gpt2.settings.Int("ffn_width"), 256);
  EXPECT_EQ(gpt2.settings.Int("max_sequence"), 32);
  EXPECT_TRUE(gpt2.settings.Bool("tied"));
  EXPECT_TRUE(gpt2.settings.Bool("attention_bias"));
  EXPECT_EQ(gpt2.settings.Float("norm_eps"), 1e-5);

  const auto family = [](const std::string& name) {
    return Parse("data: {synthetic: true}\nmodel: {family: " + name +
                 ", layers: 32, width: 4096, heads: 32, kv_heads: 8, vocab: 32000, sequence: 2048}")
        .model;
  };
  const ModelConfig llama = family("llama");
  EXPECT_EQ(llama.settings.Int("kv_heads"), 8);
  EXPECT_EQ(llama.settings.Int("head_width"), 128);
  EXPECT_EQ(llama.settings.Int("ffn_width"), 11008);  // Llama 7B
  EXPECT_FALSE(llama.settings.Bool("tied"));
  EXPECT_FALSE(llama.settings.Bool("attention_bias"));
  EXPECT_EQ(llama.settings.Float("norm_eps"), 1e-5);
  EXPECT_EQ(llama.settings.Float("rope_theta"), 1e4);
  EXPECT_EQ(llama.settings.Text("rope_type"), "default");
  const ModelConfig qwen2 = family("qwen2");
  EXPECT_FALSE(qwen2.settings.Bool("tied"));
  EXPECT_TRUE(qwen2.settings.Bool("attention_bias"));
  EXPECT_EQ(qwen2.settings.Float("norm_eps"), 1e-6);
  EXPECT_EQ(qwen2.settings.Float("rope_theta"), 1e6);
  const ModelConfig qwen3 = family("qwen3");
  EXPECT_FALSE(qwen3.settings.Bool("attention_bias"));
  EXPECT_EQ(qwen3.settings.Float("norm_eps"), 1e-6);
  EXPECT_EQ(qwen3.settings.Float("rope_theta"), 1e6);
  const ModelConfig mistral = family("mistral");
  EXPECT_FALSE(mistral.settings.Has("window"));
  EXPECT_FALSE(mistral.settings.Bool("attention_bias"));
  EXPECT_EQ(mistral.settings.Float("norm_eps"), 1e-5);
  const ModelConfig gemma2 = family("gemma2");
  EXPECT_TRUE(gemma2.settings.Bool("tied"));
  EXPECT_EQ(gemma2.settings.Int("ffn_width"), 4 * gemma2.settings.Int("width"));
  EXPECT_EQ(gemma2.settings.Float("norm_eps"), 1e-6);
  EXPECT_EQ(gemma2.settings.Float("rope_theta"), 1e4);
  EXPECT_EQ(gemma2.settings.Int("window"), 4096);
  EXPECT_EQ(gemma2.settings.Int("window_pattern"), 2);
  EXPECT_EQ(gemma2.settings.Int("query_pre_attn_scalar"), gemma2.settings.Int("head_width"));
  EXPECT_EQ(gemma2.settings.Float("attn_logit_softcapping"), 50);
  EXPECT_EQ(gemma2.settings.Float("final_logit_softcapping"), 30);
  EXPECT_FALSE(gemma2.settings.Has("rope_local_base_freq"));
  const ModelConfig gemma3 = family("gemma3_text");
  EXPECT_TRUE(gemma3.settings.Bool("tied"));
  EXPECT_EQ(gemma3.settings.Float("rope_theta"), 1e6);
  EXPECT_EQ(gemma3.settings.Float("rope_local_base_freq"), 1e4);
  EXPECT_EQ(gemma3.settings.Int("window_pattern"), 6);
  EXPECT_EQ(gemma3.settings.Float("final_logit_softcapping"), 0);
  EXPECT_FALSE(gemma3.settings.Has("attn_logit_softcapping"));
}

TEST(Load, RotaryEmbeddingsAreStretched) {
  const RunConfig config = Parse(
      "data: {synthetic: true}\n"
      "model: {family: llama, layers: 1, width: 8, heads: 1, vocab: 9, sequence: 4, rope_type: "
      "linear, rope_factor: 4}");
  EXPECT_EQ(config.model.settings.Text("rope_type"), "linear");
  EXPECT_EQ(config.model.settings.Float("rope_factor"), 4);
  const RunConfig yarn = Parse(
      "data: {synthetic: true}\n"
      "model: {family: llama, layers: 1, width: 8, heads: 1, vocab: 9, sequence: 4, rope_type: "
      "yarn, rope_factor: 4, rope_original_sequence: 2}");
  EXPECT_EQ(yarn.model.settings.Text("rope_type"), "yarn");
  EXPECT_EQ(yarn.model.settings.Int("rope_original_sequence"), 2);
}

TEST(Load, PartsOfHeadsTurnInPhi3) {
  const RunConfig config = Parse(
      "data: {synthetic: true}\n"
      "model: {family: phi3, layers: 1, width: 8, heads: 1, vocab: 9, sequence: 4, rotary_width: "
      "6, window: 3}");
  EXPECT_EQ(config.model.settings.Int("rotary_width"), 6);
  EXPECT_EQ(config.model.settings.Int("window"), 3);
  EXPECT_EQ(config.model.settings.Float("norm_eps"), 1e-5);
  EXPECT_FALSE(config.model.settings.Has("rope_type"));
}

TEST(Load, HeadWidthNeedNotDivideTheWidth) {
  const RunConfig config = Parse(
      "data: {synthetic: true}\n"
      "model: {family: llama, layers: 1, width: 100, heads: 3, head_width: 32, vocab: 9, sequence: "
      "4}");
  EXPECT_EQ(config.model.settings.Int("head_width"), 32);
  EXPECT_EQ(config.model.settings.Int("kv_heads"), 3);
}

TEST(Load, ByteTokenizerGivesTheVocabulary) {
  const std::string text = "model: {family: gpt2, layers: 1, width: 8, heads: 1, sequence: 4}\n";
  EXPECT_EQ(Parse(text + "data: {train: a.txt, tokenizer: byte, format: text}")
                .model.settings.Int("vocab"),
            256);
}

TEST(Load, InitFromLeavesTheShapeOpen) {
  const Loaded loaded = LoadText(
      "model: {init_from: ckpt, sequence: 64}\ndata: {train: a.bin}\ntrain: {global_batch_tokens: "
      "1024}",
      "run.yaml");
  EXPECT_EQ(loaded.config.model.init_from, "ckpt");
  EXPECT_FALSE(loaded.config.model.settings.Has("layers"));
  EXPECT_EQ(loaded.config.model.sequence(), 64);
  EXPECT_EQ(loaded.config.train.accumulate, 2);  // 1024 / 64 / micro_batch 8
  EXPECT_EQ(loaded.resolved_yaml.find("family"), std::string::npos);
  ExpectRoundTrip(loaded);

  // Without a sequence length the batch is resolved later, with the checkpoint's.
  RunConfig config =
      Parse("model: {init_from: c}\ndata: {train: a}\ntrain: {global_batch_tokens: 1024}");
  EXPECT_EQ(config.train.accumulate, 1);
  config.model.settings.Set("sequence", int64_t{32});
  DeriveBatch(config, 2);
  EXPECT_EQ(config.train.accumulate, 2);
}

TEST(Load, AccumulateFollowsTheGlobalBatch) {
  const std::string text = kBase + "train: {micro_batch: 4, global_batch: 32}\n";
  EXPECT_EQ(Parse(text).train.accumulate, 8);
  EXPECT_EQ(Parse(text, {}, 4).train.accumulate, 2);
  EXPECT_EQ(Parse(text, {"train.micro_batch=16"}).train.accumulate, 2);
  EXPECT_EQ(Parse(kBase + "train: {micro_batch: 4, global_batch_tokens: 1024}\n").train.accumulate,
            8);
  EXPECT_EQ(
      Parse(kBase + "train: {micro_batch: 4, accumulate: 8, global_batch: 32}\n").train.accumulate,
      8);
  // In the resolved configuration the value still follows.
  const std::string resolved = LoadText(text, "run.yaml").resolved_yaml;
  EXPECT_NE(resolved.find("  # accumulate: 8  (follows)\n"), std::string::npos);
  EXPECT_EQ(Parse(resolved, {}, 4).train.accumulate, 2);
}

// A run started on several ranks can be planned for them, and vice versa, with the same settings.
TEST(Load, RanksThatAreStartedAndRanksThatAreNamedCutTheBatchAlike) {
  const auto cut = [](const std::string& text, const std::vector<std::string>& sets,
                      int64_t started) {
    try {
      const RunConfig config = Parse(text, sets, started);
      return fmt::format("{} × {}", config.train.accumulate, config.train.micro_batch);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  int accepted = 0, refused = 0;
  for (const char* micro_batch : {"1", "4", "6", "16", "auto"}) {
    for (const char* batch : {"global_batch: 16", "global_batch: 12", "global_batch_tokens: 768",
                              "accumulate: 2", "accumulate: 2, global_batch: 16"}) {
      const std::string text =
          kBase + fmt::format("train: {{micro_batch: {}, {}}}\n", micro_batch, batch);
      for (const int64_t ranks : {2, 3, 4, 8}) {
        SCOPED_TRACE(fmt::format("{}{} ranks", text, ranks));
        const std::string named = fmt::format("parallel.data={}", ranks);
        const std::string started = cut(text, {}, ranks);
        EXPECT_EQ(cut(text, {named}, 1), started);
        EXPECT_EQ(cut(text, {named}, ranks), started);
        (started.starts_with("run.yaml") ? refused : accepted) += 1;
      }
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 20);
  EXPECT_EQ(cut(kBase + "train: {micro_batch: 16, global_batch: 16}\n", {"parallel.data=4"}, 1),
            "1 × 4");
}

// A short trial of a file that is made for a long run.
TEST(Load, AWarmUpLongerThanTheRunIsShortened) {
  const Loaded loaded =
      LoadText(kBase + "schedule: {warmup: 200}\n", "run.yaml", {"train.steps=60"});
  // The file's number stays, so that a longer run can go on from this one.
  EXPECT_EQ(loaded.config.schedule.warmup, 200);
  EXPECT_EQ(loaded.config.schedule.WarmUpWithin(60), 6);
  EXPECT_THAT(loaded.warnings,
              testing::ElementsAre("run.yaml:3: schedule.warmup: 200 steps, but train.steps is 60 "
                                   "(--set); shortened to 6, a tenth of them"));
  ExpectEqual(LoadText(loaded.resolved_yaml, "resolved.yaml").config, loaded.config);
  const Loaded critic = LoadText(kBase + "objectives: {critic: {schedule: {warmup: 50}}}\n",
                                 "run.yaml", {"train.steps=20"});
  EXPECT_THAT(critic.warnings, testing::ElementsAre(testing::HasSubstr(
                                   "objectives.critic.schedule.warmup: 50 steps, but train.steps "
                                   "is 20 (--set); shortened to 2")));
}

TEST(Load, WsdDecay) {
  const std::string text = kBase + "train: {steps: 50}\nschedule: {name: wsd, warmup: 5";
  EXPECT_EQ(Parse(text + "}").schedule.decay_steps, 10);
  EXPECT_EQ(Parse(text + ", decay_fraction: 0.5}").schedule.decay_steps, 25);
  EXPECT_EQ(Parse(text + ", decay_steps: 45}").schedule.decay_steps, 45);
}

TEST(Load, LayersWinKeyByKey) {
  const Loaded loaded =
      LoadFiles({{"runs/run.yaml", "extends: [../base.yaml, over.yaml]\n\ntrain: {seed: 3}\n"},
                 {"base.yaml", kBase + "train: {steps: 5, seed: 1, log_every: 2}\n"},
                 {"runs/over.yaml", "train:\n  steps: 6\n  seed: 2\n"}},
                "runs/run.yaml", {"train.log_every=9"});
  EXPECT_EQ(loaded.config.train.steps, 6);
  EXPECT_EQ(loaded.config.train.seed, 3);
  EXPECT_EQ(loaded.config.train.log_every, 9);
  EXPECT_EQ(loaded.Origin("train.steps"), "runs/over.yaml:2");
  EXPECT_EQ(loaded.Origin("train.seed"), "runs/run.yaml:3");
  EXPECT_EQ(loaded.Origin("train.log_every"), "--set");
  EXPECT_EQ(loaded.Origin("model.width"), "base.yaml:1");
  EXPECT_EQ(loaded.Origin("optimizer.lr"), "runs/run.yaml");  // a default
  EXPECT_STREQ(loaded.config.Error("train.steps", "too few").what(),
               "runs/over.yaml:2: train.steps: too few");
}

TEST(Load, AFileMayBeExtendedTwice) {
  const Loaded loaded = LoadFiles({{"run.yaml", "extends: [a.yaml, b.yaml]\n"},
                                   {"a.yaml", "extends: base.yaml\ntrain: {steps: 2}\n"},
                                   {"b.yaml", "extends: base.yaml\n"},
                                   {"base.yaml", kBase + "train: {steps: 1}\n"}},
                                  "run.yaml");
  EXPECT_EQ(loaded.config.train.steps, 1);
}

TEST(Load, NullTakesBack) {
  const std::string base =
      kBase + "train: {steps: 5, global_batch: 64}\noptimizer: {betas: [0.1, 0.2]}\n";
  const Loaded loaded =
      LoadFiles({{"run.yaml", "extends: base.yaml\ntrain: {steps: null}\n"}, {"base.yaml", base}},
                "run.yaml", {"train.global_batch=null"});
  EXPECT_EQ(loaded.config.train.steps, 1000);
  EXPECT_FALSE(loaded.config.IsSet("train.steps"));
  EXPECT_EQ(loaded.config.train.global_batch, std::nullopt);
  EXPECT_EQ(loaded.config.train.accumulate, 1);
}

TEST(Load, AlternativesOfALaterLayerReplaceEarlierOnes) {
  EXPECT_THAT(Parse(kBase, {"data.train=x.bin"}).data.train, ElementsAre(TrainSource{{"x.bin"}}));
  EXPECT_FALSE(Parse(kBase, {"data.train=x.bin"}).data.synthetic);
  EXPECT_TRUE(Parse(kModel + "data: {train: x.bin}", {"data.synthetic=true"}).data.train.empty());
  // synthetic: false does not affect the files.
  EXPECT_THAT(Parse(kModel + "data: {train: x.bin}", {"data.synthetic=false"}).data.train,
              ElementsAre(TrainSource{{"x.bin"}}));
  EXPECT_EQ(Parse(kBase + "train: {accumulate: 4}", {"train.global_batch=16"}).train.accumulate, 2);
  EXPECT_EQ(Parse(kBase + "train: {global_batch: 16}", {"train.accumulate=4"}).train.accumulate, 4);
  EXPECT_EQ(Parse(kBase + "train: {global_batch: 16}", {"train.global_batch_tokens=1024"})
                .train.accumulate,
            4);
  // Within one layer a contradiction is an error.
  EXPECT_THROW(Parse(kBase, {"train.accumulate=4", "train.global_batch=16"}), UserError);
}

TEST(Load, SourcesHaveWeights) {
  const auto sources = [](const std::string& train, const std::vector<std::string>& sets = {}) {
    const Loaded loaded = LoadText(kModel + "data: {train: " + train + "}\n", "run.yaml", sets);
    EXPECT_EQ(Parse(loaded.resolved_yaml).data.train, loaded.config.data.train);
    return loaded.config.data.train;
  };
  const TrainSource a = {{"a"}, 2}, b = {{"b", "c*"}, 0.5}, plain = {{"d"}, 1};
  EXPECT_THAT(sources("[{files: a, weight: 2}, {files: [b, \"c*\"], weight: .5}, {files: d}]"),
              ElementsAre(a, b, plain));
  EXPECT_THAT(sources("x", {"data.train=[{files: a, weight: 2}, {files: d}]"}),
              ElementsAre(a, plain));
  // A single source that gives all samples equals a plain list.
  EXPECT_THAT(sources("[{files: d}]"), ElementsAre(plain));
  EXPECT_THAT(sources("d"), ElementsAre(plain));
  EXPECT_EQ(LoadText(kModel + "data: {train: [a, b]}\n", "run.yaml").resolved_yaml.find("{files"),
            std::string::npos);
  // The format is text, unless one of the files holds tokens.
  const std::string text = "data: {train: [{files: a}, {files: b}], tokenizer: byte}\n";
  EXPECT_EQ(Parse(kModel + text).data.format, DataFormat::kText);
  EXPECT_EQ(Parse(kModel + text, {"data.train=[{files: a}, {files: b.bin}]"}).data.format,
            DataFormat::kAuto);
}

TEST(Load, ASourceHasItsOwnKeys) {
  const std::string text = kModel + "data: {source: images, folder: f, mean: [0.5, 0.25, 0]}\n";
  const RunConfig config = Parse(text, {"data.std=0.5", "data.flip=true"});
  EXPECT_THAT(config.data.settings.Floats("mean"), ElementsAre(0.5, 0.25, 0));
  EXPECT_THAT(config.data.settings.Floats("std"), ElementsAre(0.5));
  EXPECT_TRUE(config.data.settings.Bool("flip"));
  EXPECT_EQ(config.data.settings.Int("pad_to"), 0);
  EXPECT_GT(config.train.eval_every, 0);
  EXPECT_THAT(Parse(text, {"data.std=[1, 0.5, 2]"}).data.settings.Floats("std"),
              ElementsAre(1, 0.5, 2));
  EXPECT_FALSE(Parse(text).data.settings.Has("std"));
}

// With a tokenizer, files are text unless their names say otherwise.
TEST(Load, AutoFormatFollowsTheNames) {
  EXPECT_EQ(Parse(kBase, {"data.train=x.txt", "data.tokenizer=byte"}).data.format,
            DataFormat::kText);
  EXPECT_EQ(Parse(kBase, {"data.train=x.bin", "data.tokenizer=byte"}).data.format,
            DataFormat::kAuto);
  EXPECT_EQ(Parse(kBase, {"data.train=x.txt"}).data.format, DataFormat::kAuto);
}

// parallel: auto opens all keys of the section that may be auto, and nothing else; a later layer
// wins key by key.
TEST(Load, ASectionMayBeAuto) {
  const std::string base = kBase + "train: {global_batch: 16}\n";
  const RunConfig open = LoadText(base + "parallel: auto\n", "run.yaml", {}, 4).config;
  EXPECT_TRUE(open.parallel.open_mesh());
  EXPECT_EQ(open.parallel.zero, std::nullopt);
  EXPECT_EQ(open.parallel.sequence, OnOrAuto::kAuto);
  EXPECT_TRUE(open.parallel.reshard_after_forward);
  EXPECT_EQ(open.Origin("parallel.zero"), "run.yaml:4");
  const std::string named = base + "parallel: {data: 2, tensor: 2, zero: 1}\n";
  const auto load = [&](const std::vector<std::string>& sets) {
    return LoadText(named, "run.yaml", sets, 4).config.parallel;
  };
  EXPECT_EQ(load({"parallel=auto"}).zero, std::nullopt);
  EXPECT_TRUE(load({"parallel=auto"}).open_mesh());
  EXPECT_EQ(load({"parallel=auto", "parallel.tensor=2"}).tensor, 2);
  EXPECT_EQ(load({"parallel.tensor=auto"}).tensor, 2);  // follows from the data ranks
}

TEST(Load, SetTakesStringsAsTheyAre) {
  const RunConfig config =
      Parse(kBase, {"sample.prompt=Once: upon {a} time", "run.dir=true", "data.eval=[a, \"b c\"]",
                    "optimizer.betas=[0.5, 0.6]", "data.train=x.bin", "data.exclude=*.dat"});
  EXPECT_EQ(config.sample.prompt, "Once: upon {a} time");
  EXPECT_EQ(config.run.dir, "true");
  EXPECT_THAT(config.data.eval, ElementsAre("a", "b c"));
  EXPECT_THAT(config.optimizer.betas, ElementsAre(0.5, 0.6));
  EXPECT_THAT(config.data.exclude, ElementsAre("*.dat"));
}

TEST(Load, Environment) {
  setenv("PLIMSOLL_TEST_STEPS", "12", 1);
  setenv("PLIMSOLL_TEST_EMPTY", "", 1);
  unsetenv("PLIMSOLL_TEST_UNSET");
  const Loaded loaded = LoadText(kBase + R"(
train: {steps: "${PLIMSOLL_TEST_STEPS}", seed: "${PLIMSOLL_TEST_UNSET:-4}"}
run: {dir: "out/${PLIMSOLL_TEST_STEPS}/${PLIMSOLL_TEST_EMPTY:-x}${PLIMSOLL_TEST_EMPTY}"}
sample: {prompt: "$${HOME} $1 $$${A"}
)",
                                 "run.yaml");
  EXPECT_EQ(loaded.config.train.steps, 12);
  EXPECT_EQ(loaded.config.train.seed, 4);
  EXPECT_EQ(loaded.config.run.dir, "out/12/x");
  EXPECT_EQ(loaded.config.sample.prompt, "${HOME} $1 $${A");
  ExpectRoundTrip(loaded);
}

TEST(Load, EnvironmentInExtends) {
  setenv("PLIMSOLL_TEST_BASE", "base", 1);
  EXPECT_EQ(
      LoadFiles({{"run.yaml", "extends: \"${PLIMSOLL_TEST_BASE}.yaml\""}, {"base.yaml", kBase}},
                "run.yaml")
          .config.model.settings.Int("layers"),
      2);
}

TEST(Load, AnchorsAndMergeKeys) {
  const RunConfig config = Parse(
      "model: &m {family: gpt2, layers: 2, width: 64, heads: 4, vocab: 256, sequence: &n 32}\n"
      "data: {synthetic: true}\n"
      "train: {<<: [{steps: 3, seed: 4}, {steps: 5, log_every: 6}], seed: 7, eval_every: *n}\n");
  EXPECT_EQ(config.train.steps, 3);      // the first of the merged
  EXPECT_EQ(config.train.seed, 7);       // its own
  EXPECT_EQ(config.train.log_every, 6);  // the second
  EXPECT_EQ(config.train.eval_every, 32);
}

TEST(Load, SectionsMayBeEmpty) {
  EXPECT_EQ(Parse(kBase + "train:\n#  steps: 3\n").train.steps, 1000);
}

TEST(Load, MapsWithinSections) {
  const std::string fp16 = kBase + "amp:\n  dtype: fp16\n  fp8:\n";
  const Loaded loaded = LoadText(fp16 + "    recipe: current\n    skip: [block.0.*, \"*.mlp.*\"]\n",
                                 "run.yaml", {"amp.fp8.gradients=e4m3"});
  const AmpConfig& amp = loaded.config.amp;
  EXPECT_EQ(amp.fp8_recipe, Fp8Recipe::kCurrent);
  EXPECT_EQ(amp.fp8_gradients, Fp8Gradients::kE4m3);
  EXPECT_EQ(amp.fp8_skip, (std::vector<std::string>{"block.0.*", "*.mlp.*"}));
  EXPECT_EQ(loaded.config.Origin("amp.fp8.skip"), "run.yaml:7");
  EXPECT_NE(loaded.resolved_yaml.find("\n  fp8:\n    recipe: current\n    gradients: e4m3\n"),
            std::string::npos);
  ExpectRoundTrip(loaded);
  // One whose lines are all commented out; and a layer that takes a value back.
  EXPECT_EQ(Parse(fp16).amp.fp8_recipe, Fp8Recipe::kNone);
  EXPECT_EQ(Parse(fp16 + "    recipe: current\n", {"amp.fp8.recipe=null"}).amp.fp8_recipe,
            Fp8Recipe::kNone);
}

TEST(Load, NoEvaluationWithoutHeldOutData) {
  EXPECT_EQ(Parse(kModel + "data: {train: a}\ntrain: {eval_every: 5}").train.eval_every, 0);
  EXPECT_EQ(Parse(kModel + "data: {train: a}").train.eval_every, 0);
  EXPECT_EQ(Parse(kModel + "data: {train: a, eval: b}").train.eval_every, 250);
  EXPECT_EQ(Parse(kBase + "train: {eval_every: 5}").train.eval_every, 5);
}

TEST(Load, ScalesOfAdaptersHaveAMargin) {
  const std::string fp8 = kBase + "amp: {dtype: bf16, fp8: {recipe: delayed}}\n";
  EXPECT_EQ(Parse(fp8).amp.fp8_margin, 1);
  EXPECT_EQ(Parse(fp8 + "lora: {rank: 4}\n").amp.fp8_margin, 2);
  EXPECT_EQ(Parse(fp8 + "lora: {rank: 4}\n", {"amp.fp8.margin=1"}).amp.fp8_margin, 1);
}

TEST(Load, RunDirectory) {
  EXPECT_EQ(LoadText(kBase, "configs/small.yaml").config.run.dir, "runs/small");
  EXPECT_EQ(LoadText(kBase, "").config.run.dir, "runs/run");
  const RunConfig config = Parse(kBase, {"debug.dump_programs=true", "run.dir=d"});
  EXPECT_EQ(config.debug.dump_programs, "d/programs");
  EXPECT_EQ(Parse(kBase, {"debug.dump_programs=dumps"}).debug.dump_programs, "dumps");
  EXPECT_EQ(Parse(kBase, {"debug.dump_programs=false"}).debug.dump_programs, "");
}

TEST(Load, ResolvedConfigurationLoadsToItself) {
  ExpectRoundTrip(LoadText(kBase, "run.yaml"));
  ExpectRoundTrip(LoadText(kBase + R"(
train: {micro_batch: 4, global_batch: 32, global_batch_tokens: 1024, seed: 9007199254740992}
optimizer: {lr: 0.1, eps: 1.2345678901234567e-30, weight_decay_groups: [{pattern: "a: #b", weight_decay: 1e-3}]}
schedule: {name: wsd, decay_steps: 3, warmup: 1}
parallel: {data: 1}
run: {dir: "~"}
sample: {prompt: "a\tb\n\"c\" \\ 'd' ü ${NO:-x}: - # null"}
debug: {dump_programs: "false"}
)",
                           "run.yaml"));
  for (const char* text : {"null", "true", "3", "", " ", "-", "<<", "*a", "&a", "!a", "%a", "a: b",
                           "a #b", "@", "`"}) {
    ExpectRoundTrip(LoadText(kBase, "run.yaml", {"sample.prompt=\"" + std::string(text) + "\""}));
  }
}

TEST(Load, MemorySizes) {
  const auto parse = [](const std::string& text) {
    MemorySize size;
    return ParseMemorySize(text, &size) ? ToText(size) : "refused";
  };
  EXPECT_EQ(parse("24GiB"), "24GiB");
  EXPECT_EQ(parse("1.5 GiB"), "1536MiB");
  EXPECT_EQ(parse("2GB"), "1953125KiB");
  EXPECT_EQ(parse("1000"), "1000");
  EXPECT_EQ(parse("90%"), "90%");
  EXPECT_EQ(parse("33.3 %"), "33.3%");
  EXPECT_EQ(parse("free"), "free");
  EXPECT_EQ(parse("free - 1GiB"), "free - 1GiB");
  EXPECT_EQ(parse("free-512MiB"), "free - 512MiB");
  for (const char* text : {"", "GiB", "-1GiB", "0", "0%", "101%", "free +1GiB", "free -", "24gib",
                           "1e30TiB", "nan", "infGiB", "free - x"}) {
    EXPECT_EQ(parse(text), "refused") << text;
  }
}

}  // namespace
}  // namespace plimsoll::config
