// Adapters as users see them: train, resume, eval, generate, export, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

class LoraCommand : public testing::Test {
 protected:
  LoraCommand() {
    std::string words;
    for (int i = 0; i < 300; ++i) {
      words += "Six, seven, eight: number " + std::to_string(i) + " is alive.\n";
    }
    folder_.Write("text", words);
    const std::string rest = "data: {train: " + folder_.path() +
                             "/text, format: text, tokenizer: byte, eval_fraction: 0.1}\n"
                             "optimizer: {lr: 1e-2}\n"
                             "device: cpu\n"
                             "memory: {summary: false, calibrate: false}\n";
    WriteFile(base_yaml_,
              "model: {family: llama, layers: 2, width: 32, heads: 2, kv_heads: 1, ffn_width: 48, "
              "sequence: 16}\n"
              "train: {steps: 12, micro_batch: 2, eval_every: 0, threads: 2}\n" +
                  rest);
    WriteFile(yaml_, "model: {init_from: " + base_ +
                         ", sequence: 16}\n"
                         "lora: {rank: 3, alpha: 6, targets: [q_proj, v_proj, mlp.*], dropout: "
                         "0.1}\n"
                         "train: {steps: 8, micro_batch: 2, eval_every: 4, threads: 2}\n"
                         "save: {every: 4}\n" +
                         rest);
    Run({"train", base_yaml_, "--set", "run.dir=" + folder_ / "base"});
  }

  std::string Run(const Arguments& arguments) const {
    const Outcome outcome = ExpectExit(0, RunPlimsoll(arguments));
    return outcome.out;
  }
  void Train(const std::string& run, const Arguments& sets = {}, const Arguments& more = {}) const {
    Run(WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / run}, sets, more));
  }
  void ExpectRefused(const Arguments& arguments, const Arguments& parts) const {
    ExpectRefusal(RunPlimsoll(arguments), parts);
  }
  void ExpectTrainRefused(const Arguments& sets, const Arguments& parts) const {
    ExpectRefused(WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / "refused"}, sets),
                  parts);
  }
  double Loss(Arguments arguments) const {
    arguments.insert(arguments.begin(), "eval");
    arguments.insert(arguments.end(), {"--data", folder_ / "text", "--tokenizer", "byte",
                                       "--sequence", "16", "--batch", "4", "--json"});
    return json::parse(Run(arguments)).at("loss");
  }
  // The losses of a run's evaluations, by step.
  std::vector<double> HeldOut(const std::string& run) const {
    std::vector<double> losses;
    for (const json& parsed : JsonLines(folder_.Read(run + "/metrics.jsonl"))) {
      if (parsed.contains("eval_loss")) losses.push_back(parsed.at("eval_loss"));
    }
    return losses;
  }
  std::string Adapter(const std::string& folder) const {
    return folder_.Read(folder + "/adapter_model.safetensors");
  }

  const TempFolder folder_;
  const std::string base_ = folder_ / "base/model";
  const std::string base_yaml_ = folder_ / "base.yaml", yaml_ = folder_ / "lora.yaml";
};

TEST_F(LoraCommand, TrainsAnAdapterThatOtherCommandsUse) {
  const std::string base = ReadFile(base_ + "/model.safetensors");
  Train("run");
  EXPECT_EQ(ReadFile(base_ + "/model.safetensors"), base);
  EXPECT_THAT(folder_.Names("run/adapter"),
              ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/model"));
  const json config = json::parse(folder_.Read("run/adapter/adapter_config.json"));
  EXPECT_EQ(config.at("r"), 3);
  EXPECT_EQ(config.at("lora_alpha"), 6);
  EXPECT_THAT(config.at("target_modules"),
              ElementsAre("down_proj", "gate_proj", "q_proj", "up_proj", "v_proj"));
  const json summary = json::parse(folder_.Read("run/summary.json"));
  // q and v, gate, up and down: (3·32 + 32·3) + (3·32 + 16·3) + 2·(3·32 + 48·3) + (3·48 + 32·3)
  EXPECT_EQ(summary.at("trained_parameters"), 2 * (192 + 144 + 480 + 240));

  // At first the model equals the base; later it is better.
  const std::vector<double> held_out = HeldOut("run");
  ASSERT_EQ(held_out.size(), 3u);
  const json base_eval = json::parse(Run({"eval", folder_ / "run", "--json"}));
  EXPECT_NEAR(base_eval.at("loss"), held_out.back(), 1e-6);
  EXPECT_LT(held_out.back(), held_out.front());
  const double with_adapter = Loss({folder_ / "run"});
  EXPECT_LT(with_adapter, Loss({base_}));
  EXPECT_EQ(Loss({base_, "--adapter", folder_ / "run/adapter"}), with_adapter);
  EXPECT_FALSE(Run({"generate", folder_ / "run", "--tokens", "5", "--prompt", "Six"}).empty());

  // Merged weights give the same results as base and adapter.
  EXPECT_THAT(Run({"export", folder_ / "run", "--to", folder_ / "merged", "--merge"}),
              HasSubstr("merged with its adapter"));
  EXPECT_NEAR(Loss({folder_ / "merged"}), with_adapter, 1e-5);
  EXPECT_NE(Loss({folder_ / "merged"}), Loss({base_}));
}

TEST_F(LoraCommand, ResumesToTheBit) {
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    const std::string run = "whole-" + dtype, parts = "parts-" + dtype, type = "amp.dtype=" + dtype;
    Train(run, {type});
    Train(parts, {type, "train.stop_after=4"});
    Train(parts, {type}, {"--resume", "auto"});
    EXPECT_EQ(Adapter(parts + "/adapter"), Adapter(run + "/adapter")) << dtype;
    EXPECT_EQ(HeldOut(parts).back(), HeldOut(run).back()) << dtype;
  }
  // Snapshots do not hold the model's weights, which stay at their place.
  EXPECT_THAT(folder_.Read("whole-fp32/snapshots/step-000000004/manifest.json"),
              AllOf(HasSubstr("block.0.attn.qkv.lora_a"), Not(HasSubstr("qkv.weight"))));
  ExpectRefused({"train", yaml_, "--set", "run.dir=" + folder_ / "parts-fp32", "--set",
                 "lora.rank=4", "--resume", "auto"},
                {"lora.rank: 4, in the snapshot 3"});
}

TEST_F(LoraCommand, ExportsSnapshotsAsTheRunAtThatStep) {
  Train("run");
  Train("stopped", {"train.stop_after=4", "save.every=0"});
  Run({"export", folder_ / "run", "--to", folder_ / "at-4", "--step", "4"});
  EXPECT_EQ(Adapter("at-4"), Adapter("stopped/adapter"));
  EXPECT_EQ(folder_.Read("at-4/adapter_config.json"),
            folder_.Read("stopped/adapter/adapter_config.json"));
  Run({"export", folder_ / "run", "--to", folder_ / "merged-4", "--step", "4", "--merge"});
  Run({"export", folder_ / "stopped", "--to", folder_ / "merged", "--merge"});
  EXPECT_EQ(folder_.Read("merged-4/model.safetensors"), folder_.Read("merged/model.safetensors"));
  // In 16 bits, replacing the earlier export.
  Run({"export", folder_ / "stopped", "--to", folder_ / "at-4", "--overwrite", "--dtype", "bf16"});
  EXPECT_LT(Adapter("at-4").size(), 0.7 * Adapter("stopped/adapter").size());
  EXPECT_NEAR(Loss({base_, "--adapter", folder_ / "at-4"}), Loss({folder_ / "stopped"}), 1e-3);
  // Refuses to overwrite files that it reads.
  for (const std::string& to : {base_, folder_ / "stopped/adapter"}) {
    ExpectRefused({"export", folder_ / "stopped", "--to", to, "--merge", "--overwrite"},
                  {"--to", "is read from"});
  }
  ExpectRefused({"export", folder_ / "base", "--to", folder_ / "no", "--merge"},
                {"--merge", "no adapter"});
}

TEST_F(LoraCommand, AStoppedRunGeneratesAndIsEvaluated) {
  Train("run", {"save.keep=0"});
  const Arguments eval = {"eval", folder_ / "run", "--json"};
  const double ended = json::parse(Run(eval)).at("loss");
  std::filesystem::remove_all(folder_ / "run/adapter");
  EXPECT_EQ(json::parse(Run(eval)).at("loss"), ended);
  Arguments at_4 = eval;
  at_4.insert(at_4.end(), {"--step", "4"});
  EXPECT_NEAR(json::parse(Run(at_4)).at("loss"), HeldOut("run").at(1), 1e-6);
  EXPECT_FALSE(Run({"generate", folder_ / "run", "--tokens", "5", "--prompt", "Six"}).empty());
  ExpectRefused({"eval", folder_ / "run", "--adapter", folder_ / "run/adapter"}, {"--adapter"});
}

TEST_F(LoraCommand, GoesOnFromAnAdapter) {
  Train("first");
  std::filesystem::rename(folder_ / "first/adapter", folder_ / "adapter");
  WriteFile(yaml_, "model: {init_from: " + base_ +
                       ", sequence: 16}\n"
                       "lora: {init_from: " +
                       folder_ / "adapter" +
                       "}\n"
                       "data: {train: " +
                       folder_ / "text" +
                       ", format: text, tokenizer: byte, eval_fraction: 0.1}\n"
                       "train: {steps: 4, micro_batch: 2, eval_every: 4, threads: 2}\n"
                       "memory: {summary: false, calibrate: false}\n");
  Train("second", {"save.every=4"});
  EXPECT_EQ(HeldOut("second").front(), HeldOut("first").back());
  EXPECT_THAT(folder_.Read("second/config.yaml"), HasSubstr("rank: 3"));
  // With a resolved file without adapters, which an extended file may be.
  const json plan =
      json::parse(Run({"plan", yaml_, "--set", "lora.rank=0", "--set", "lora.alpha=16", "--set",
                       "lora.targets=[all-linear]", "--set", "lora.rslora=false", "--json"}));
  EXPECT_EQ(plan.at("trained_parameters"), 2 * (192 + 144 + 480 + 240));
  EXPECT_NE(Adapter("second/adapter"), Adapter("adapter"));
  ExpectTrainRefused({"lora.rank=4"},
                     {"lora.yaml:2: lora.init_from", "has rank 3", "lora.rank is 4"});
  ExpectTrainRefused({"lora.targets=[q_proj]"}, {"lora.yaml:2: lora.init_from", "belongs to no"});
  // The adapter that it began with may be removed; the run has its own.
  std::filesystem::remove_all(folder_ / "adapter");
  Loss({folder_ / "second"});
  Run({"export", folder_ / "second", "--to", folder_ / "to", "--step", "4"});
  EXPECT_EQ(Adapter("to"), Adapter("second/adapter"));
  ExpectTrainRefused({}, {"lora.yaml:2: lora.init_from", "adapter_config.json"});
}

TEST_F(LoraCommand, ShippedFilePlans) {
  const json plan = json::parse(Run({"plan", "configs/techniques/lora.yaml", "--json", "--set",
                                     "model.init_from=" + base_, "--set", "model.sequence=16",
                                     "--set", "memory.calibrate=false", "--set", "device=cpu"}));
  EXPECT_LT(plan.at("trained_parameters"), plan.at("parameters"));
  EXPECT_GT(plan.at("trained_parameters"), 0);
}

// On made-up samples adapters can be tried over a model that starts at random. No file has that
// model, so no adapter is left; a snapshot begins it anew, and gives the bits of a whole run.
TEST_F(LoraCommand, MayBeTriedWithoutAModel) {
  const auto train = [&](const std::string& run, Arguments more) {
    Arguments arguments = {"train", base_yaml_,
                           "--set", "data.train=null",
                           "--set", "data.format=null",
                           "--set", "data.eval_fraction=null",
                           "--set", "data.synthetic=true",
                           "--set", "lora.rank=2",
                           "--set", "save.every=6",
                           "--set", "run.dir=" + folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPlimsoll(arguments);
  };
  const Outcome whole = ExpectExit(0, train("whole", {}));
  EXPECT_THAT(whole.err, HasSubstr("a trial on made-up samples, which leaves no adapter"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "whole" + "/adapter/adapter_config.json"));
  ExpectExit(0, train("parts", {"--set", "train.stop_after=6"}));
  ExpectExit(0, train("parts", {"--resume", "auto"}));
  const auto last_loss = [&](const std::string& run) {
    return json::parse(ReadFile(folder_ / run + "/summary.json")).at("loss");
  };
  EXPECT_EQ(last_loss("parts"), last_loss("whole"));
  for (const Arguments& command : {Arguments{"eval", folder_ / "whole"},
                                   Arguments{"export", folder_ / "whole", "--to", folder_ / "x"}}) {
    ExpectRefused(command, {"its adapter was trained over a model that started at random"});
  }
}

TEST_F(LoraCommand, SaysWhatIsWrong) {
  ExpectTrainRefused(
      {"lora.targets=[c_attn]"},
      {"--set: lora.targets: no linear layer matches 'c_attn'; there are down_proj"});
  ExpectTrainRefused({"train.freeze=[\"embed.*\"]"},
                     {"--set: train.freeze: with adapters the model is frozen", "lora.yaml:2"});
  ExpectTrainRefused({"lora.rank=-1"}, {"--set: lora.rank", "out of range"});
  ExpectRefused({"train", base_yaml_, "--set", "lora.rank=2"},
                {"--set: lora.rank: needs model.init_from"});
  ExpectTrainRefused({"optimizer.weight_decay_groups=[{pattern: \"embed.*\", weight_decay: 0}]"},
                     {"no parameter matches 'embed.*'", "block.0.attn.qkv.lora_a"});
  const Outcome off = ExpectExit(0, RunPlimsoll({"plan", yaml_, "--set", "lora.rank=0"}));
  EXPECT_THAT(off.err, HasSubstr("lora.alpha: has no effect without lora.rank"));
}

}  // namespace
}  // namespace plimsoll
