// `plimsoll export` as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

const std::string kTokenizer = "tests/data/tokenizers/gpt2_style.json";

class ExportCommand : public testing::Test {
 protected:
  ExportCommand() {
    std::string words;
    for (int i = 0; i < 300; ++i) {
      words += "Six, seven, eight: number " + std::to_string(i) + " is alive.\n";
    }
    folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32, vocab: 640}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte}\n"
                  "train: {steps: 9, micro_batch: 2, eval_every: 0, threads: 2}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "save: {every: 4, keep: 3}\n");
  }

  void Train(const std::string& run, const Arguments& sets, const Arguments& more = {}) const {
    ExpectExit(0, RunPlimsoll(
                      WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / run}, sets, more)));
  }
  // Returns its output.
  std::string Export(const std::string& run, const std::string& to, Arguments more = {}) const {
    more.insert(more.begin(), {"export", folder_ / run, "--to", folder_ / to});
    const Outcome outcome = ExpectExit(0, RunPlimsoll(more));
    return outcome.out;
  }
  void ExpectRefused(Arguments arguments, const Arguments& parts) const {
    arguments.insert(arguments.begin(), "export");
    ExpectRefusal(RunPlimsoll(arguments), parts);
  }
  void ExpectSameModel(const std::string& a, const std::string& b) const {
    for (const char* file : {"/model.safetensors", "/config.json"}) {
      EXPECT_EQ(ReadFile(folder_ / a + file), ReadFile(folder_ / b + file)) << a << file;
    }
  }
  double Loss(const std::string& model) const {
    const Outcome outcome =
        ExpectExit(0, RunPlimsoll({"eval", folder_ / model, "--data", folder_ / "text",
                                   "--tokenizer", "byte", "--batch", "4", "--json"}));
    return json::parse(outcome.out).at("loss");
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

// To the bit, the weights that a run writes when it ends after as many steps.
class Exported : public ExportCommand, public testing::WithParamInterface<Arguments> {};

TEST_P(Exported, SnapshotHasTheWeightsOfTheRunAtThatStep) {
  Train("run", GetParam());
  Arguments stopped = GetParam();
  stopped.insert(stopped.end(), {"train.stop_after=4", "save.every=0"});
  Train("stopped", stopped);
  EXPECT_THAT(Export("run", "at-4", {"--step", "4"}), HasSubstr("after 4 steps"));
  ExpectSameModel("at-4", "stopped/model");
  Export("run/snapshots/step-000000009", "at-9");
  ExpectSameModel("at-9", "run/model");
  EXPECT_NE(ReadFile(folder_ / "at-4/model.safetensors"),
            ReadFile(folder_ / "at-9/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Types, Exported,
                         testing::Values(Arguments{}, Arguments{"amp.dtype=bf16"},
                                         Arguments{"amp.dtype=bf16", "amp.master_weights=false"},
                                         Arguments{"amp.dtype=fp16"},
                                         Arguments{"amp.dtype=bf16", "optimizer.place=host",
                                                   "optimizer.state_dtype=int8",
                                                   "train.freeze=[\"embed.*\"]"},
                                         Arguments{"model.family=llama", "model.ffn_width=48",
                                                   "model.kv_heads=1", "amp.dtype=bf16"}),
                         [](const auto& info) { return std::to_string(info.index); });

TEST_F(ExportCommand, TakesWhatTheRunWroteLast) {
  Train("run", {"train.stop_after=4"});
  EXPECT_THAT(Export("run", "model"), HasSubstr("run/model\n"));
  ExpectSameModel("model", "run/model");
  // The run was resumed, but has not ended.
  Train("run", {"save.model=false"}, {"--resume", "auto"});
  EXPECT_THAT(Export("run/", "newest"), HasSubstr("step-000000009, after 9 steps"));
  Export("run", "at-9", {"--step", "9"});
  ExpectSameModel("newest", "at-9");
}

TEST_F(ExportCommand, KnowsTheModelOfARunFromACheckpoint) {
  Train("run", {"train.stop_after=1", "save.every=0"});
  const std::string base = folder_ / "base";
  Export("run", "base");
  WriteFile(yaml_, "model: {init_from: " + base +
                       ", sequence: 16}\n"
                       "data: {synthetic: true}\n"
                       "train: {steps: 2, micro_batch: 2, eval_every: 0, threads: 2}\n"
                       "memory: {summary: false, calibrate: false}\n"
                       "save: {every: 2}\n");
  Train("tuned", {});
  const std::string snapshot = "tuned/snapshots/step-000000002";
  Export(snapshot, "to");
  ExpectSameModel("to", "tuned/model");
  // The checkpoint has changed.
  std::string config = ReadFile(base + "/config.json");
  config.replace(config.find("\"n_layer\": 2"), 12, "\"n_layer\": 1");
  WriteFile(base + "/config.json", config);
  ExpectRefused({folder_ / snapshot, "--to", folder_ / "other"},
                {snapshot, "model.init_from", base, "another model"});
  fs::remove_all(base);
  Export("tuned", "to", {"--overwrite"});
  ExpectSameModel("to", "tuned/model");
}

TEST_F(ExportCommand, ServesEvalAndGenerate) {
  Train("run", {"amp.dtype=bf16"});
  Export("run/snapshots/step-000000009", "fp32");
  EXPECT_EQ(Loss("fp32"), Loss("run/model"));
  for (const char* dtype : {"bf16", "fp16"}) {
    Export("run", dtype, {"--step", "9", "--dtype", dtype});
    EXPECT_NE(Loss(dtype), Loss("fp32"));  // rounded
    EXPECT_NEAR(Loss(dtype), Loss("fp32"), 0.01) << dtype;
    EXPECT_LT(fs::file_size(folder_ / dtype + "/model.safetensors"),
              fs::file_size(folder_ / "fp32/model.safetensors") * 6 / 10);
  }
  Arguments generate = {"generate", folder_ / "fp32", "--tokenizer", "byte",     "--prompt",
                        "Six",      "--temperature",  "0",           "--tokens", "9"};
  const Outcome exported = RunPlimsoll(generate);
  generate[1] = folder_ / "run";
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(exported.out, RunPlimsoll(generate).out);
}

TEST_F(ExportCommand, PutsTheTokenizerBeside) {
  Train("run", {"train.stop_after=1", "save.every=0"});
  EXPECT_THAT(Export("run", "byte"), HasSubstr("no tokenizer: ids are bytes"));
  EXPECT_THAT(folder_.Names("byte"), ElementsAre("config.json", "model.safetensors"));

  Train("tokens", {"data.synthetic=true", "data.tokenizer=", "train.stop_after=4"});
  for (const char* of : {"tokens", "tokens/snapshots/step-000000004"}) {
    EXPECT_THAT(Export(of, "none", {"--overwrite"}), HasSubstr("the run names none"));
  }

  Export("run", "json", {"--tokenizer", kTokenizer});
  EXPECT_EQ(ReadFile(folder_ / "json/tokenizer.json"), ReadFile(kTokenizer));
  const json fast = json::parse(ReadFile(folder_ / "json/tokenizer_config.json"));
  EXPECT_EQ(fast.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(fast.at("eos_token"), "<|endoftext|>");
  // A checkpoint's tokenizer, with the files that belong to it.
  folder_.Write("json/tokenizer_config.json", "{}");
  Export("run", "again", {"--tokenizer", folder_ / "json"});
  EXPECT_THAT(folder_.Names("again"), ElementsAre("config.json", "model.safetensors",
                                                  "tokenizer.json", "tokenizer_config.json"));

  // GPT-2's own two files, under transformers' names for them.
  const json bpe = json::parse(ReadFile(kTokenizer)).at("model");
  std::string merges = "#version: 0.2\n";
  for (const json& merge : bpe.at("merges")) {
    merges += merge.is_string()
                  ? merge.get<std::string>() + "\n"
                  : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>() + "\n";
  }
  fs::create_directory(folder_ / "openai");
  json vocabulary = bpe.at("vocab");
  folder_.Write("openai/encoder.json", vocabulary.dump());
  folder_.Write("openai/vocab.bpe", merges);
  EXPECT_THAT(Export("run", "gpt2", {"--tokenizer", folder_ / "openai"}),
              HasSubstr("tokenizer: merges.txt, tokenizer_config.json, vocab.json"));
  EXPECT_EQ(ReadFile(folder_ / "gpt2/vocab.json"), vocabulary.dump());
  EXPECT_EQ(ReadFile(folder_ / "gpt2/merges.txt"), merges);
  // AutoTokenizer needs its class; a token that the vocabulary lacks would get an id beyond it.
  json config = json::parse(ReadFile(folder_ / "gpt2/tokenizer_config.json"));
  EXPECT_EQ(config.at("tokenizer_class"), "GPT2Tokenizer");
  EXPECT_EQ(config.at("model_max_length"), 32);
  EXPECT_TRUE(config.at("eos_token").is_null());
  vocabulary["<|endoftext|>"] = vocabulary.size();
  folder_.Write("openai/encoder.json", vocabulary.dump());
  Export("run", "ending", {"--tokenizer", folder_ / "openai"});
  config = json::parse(ReadFile(folder_ / "ending/tokenizer_config.json"));
  EXPECT_EQ(config.at("eos_token"), "<|endoftext|>");
  EXPECT_EQ(config.at("bos_token"), "<|endoftext|>");

  // A folder of this form is known by itself.
  ExpectExit(0, RunPlimsoll({"generate", folder_ / "ending", "--tokens", "3"}));
}

// What a run leaves has its tokenizer, too, and none of an earlier run's.
TEST_F(ExportCommand, ARunsModelHasItsTokenizer) {
  Train("run", {"data.tokenizer=" + kTokenizer});
  EXPECT_THAT(folder_.Names("run/model"), ElementsAre("config.json", "model.safetensors",
                                                      "tokenizer.json", "tokenizer_config.json"));
  EXPECT_EQ(ReadFile(folder_ / "run/model/tokenizer.json"), ReadFile(kTokenizer));
  Train("run", {"run.overwrite=true"});
  EXPECT_THAT(folder_.Names("run/model"), ElementsAre("config.json", "model.safetensors"));
}

TEST_F(ExportCommand, ReplacesAModelOnlyWhenToldTo) {
  Train("run", {});
  Export("run", "to", {"--step", "4", "--tokenizer", kTokenizer});
  folder_.Write("to/README.md", "mine");
  ExpectRefused({folder_ / "run", "--to", folder_ / "to"}, {"--to", "not empty", "--overwrite"});
  folder_.Write("to/model-00001-of-00002.safetensors", "of a larger one");
  folder_.Write("to/model.safetensors.tmp.123", "of a killed one");
  Export("run", "to", {"--overwrite"});
  EXPECT_THAT(folder_.Names("to"), ElementsAre("README.md", "config.json", "model.safetensors"));
  ExpectSameModel("to", "run/model");
  ExpectRefused({folder_ / "run", "--to", folder_ / "run/model", "--overwrite"},
                {"run/model", "read from"});
  ExpectSameModel("to", "run/model");
}

// Changes a byte of a tensor in the only shard of a snapshot.
void Damage(const std::string& snapshot, const std::string& tensor) {
  const std::string path = snapshot + "/rank-00000.safetensors";
  std::string shard = ReadFile(path);
  uint64_t header = 0;
  std::memcpy(&header, shard.data(), sizeof(header));
  const json tensors = json::parse(shard.substr(8, header));
  shard.at(8 + header + tensors.at(tensor).at("data_offsets").at(0).get<size_t>()) ^= 1;
  WriteFile(path, shard);
}

TEST_F(ExportCommand, ReadsTheWeightsAndNothingElse) {
  Train("run", {"amp.dtype=bf16"});
  Damage(folder_ / "run/snapshots/step-000000008", "block.1.mlp.fc.weight.m");
  Export("run", "to", {"--step", "8"});
  Damage(folder_ / "run/snapshots/step-000000009", "block.1.mlp.fc.weight.remainder");
  ExpectRefused({folder_ / "run", "--to", folder_ / "damaged", "--step", "9"},
                {"step-000000009", "block.1.mlp.fc.weight.remainder", "damaged"});
  EXPECT_THAT(folder_.Names("damaged"), ElementsAre());
}

TEST_F(ExportCommand, SaysWhatIsWrong) {
  Train("run", {});
  const std::string run = folder_ / "run", to = folder_ / "to";
  ExpectRefused({folder_.path(), "--to", to}, {folder_.path(), "config.yaml", "manifest.json"});
  ExpectRefused({folder_ / "text", "--to", to}, {"text", "config.yaml"});
  ExpectRefused({run, "--to", to, "--step", "5"}, {"--step", "no snapshot of step 5", "4, 8, 9"});
  ExpectRefused({run + "/snapshots/step-000000008", "--to", to, "--step", "9"}, {"--step", "one"});
  ExpectRefused({run, "--to", to, "--dtype", "int8"}, {"--dtype", "int8", "bf16"});
  ExpectRefused({run, "--to", folder_ / "text"}, {"--to", "text"});
  ExpectRefused({run, "--to", to, "--tokenizer", "nowhere"}, {"nowhere", "no such tokenizer"});
  EXPECT_FALSE(fs::exists(to));
  fs::remove_all(run + "/model");
  fs::remove_all(run + "/snapshots");
  ExpectRefused({run, "--to", to}, {run, "save.every"});
}

}  // namespace
}  // namespace plimsoll
