// The response to a user's mistake: one line on stderr that names the key or file, the reason and
// the way out, exit code 2, and nothing written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

// A valid run: each test breaks one thing.
constexpr const char* kSound =
    "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 2, micro_batch: 2, threads: 1}\n";

class BadInput : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& content) {
    return folder_.Write(name, content);
  }

  Outcome Train(const std::string& yaml, std::vector<std::string> sets = {}) {
    return RunPlimsoll(
        WithSets({"train", File("run.yaml", yaml), "--set", "run.dir=" + run_}, sets));
  }

  // Expects one line, exit code 2, and no run directory.
  void ExpectMistake(const Outcome& outcome, const std::vector<std::string>& parts) {
    ExpectRefusal(outcome, parts);
    EXPECT_FALSE(std::filesystem::exists(run_));
  }

  const TempFolder folder_;
  std::string run_ = folder_ / "run";
};

TEST_F(BadInput, TheSoundRunWorks) {
  ExpectExit(0, Train(kSound));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/metrics.jsonl"));
}

TEST_F(BadInput, UnknownKey) {
  ExpectMistake(Train(std::string(kSound) + "amp: {dtpye: fp32}\n"),
                {"run.yaml:4: amp.dtpye: unknown key, did you mean amp.dtype?"});
}

TEST_F(BadInput, WrongType) {
  ExpectMistake(Train(kSound, {"train.steps=many"}), {"--set: train.steps", "many"});
}

TEST_F(BadInput, HeadsThatDontDivideTheWidth) {
  ExpectMistake(Train(kSound, {"model.heads=3"}), {"model.heads", "16", "3"});
}

TEST_F(BadInput, ASequenceLongerThanTheModelAllows) {
  ExpectMistake(Train(kSound, {"model.max_sequence=4"}), {"model.", "sequence", "8", "4"});
}

TEST_F(BadInput, PipelineStagesThatWereNotStarted) {
  const std::string file = File("run.yaml", std::string(kSound) + "parallel: {pipeline: 2}\n");
  ExpectMistake(RunPlimsoll({"train", file, "--set", "train.accumulate=2"}),
                {"run.yaml:4: parallel.pipeline: 1 data × 1 tensor × 2 pipeline ranks need mpirun "
                 "-np 2, but 1 rank was started"});
}

TEST_F(BadInput, PipelineStagesOfFewerBlocks) {
  ExpectMistake(RunPlimsoll({"plan", File("run.yaml", kSound), "--set", "parallel.pipeline=9",
                             "--set", "train.accumulate=9"}),
                {"--set: parallel.pipeline: 9 stages need a block each, and the model has"});
}

TEST_F(BadInput, TensorRanksThatWereNotStarted) {
  ExpectMistake(Train(std::string(kSound) + "parallel: {tensor: 2}\n"),
                {"run.yaml:4: parallel.tensor: 1 data × 2 tensor × 1 pipeline ranks need mpirun "
                 "-np 2, but 1 rank was started"});
}

TEST_F(BadInput, TensorRanksThatCannotShareTheModel) {
  const auto plan = [&](const std::string& parallel, const std::string& set) {
    return RunPlimsoll({"plan", File("run.yaml", kSound + parallel), "--set", set});
  };
  const std::string tensor = "parallel: {tensor: 2, sequence: true}\n";
  ExpectMistake(plan("parallel: {tensor: 4}\n", "model.vocab=64"),
                {"run.yaml:4: parallel.tensor: 4 ranks cannot share model.heads 2 equally"});
  ExpectMistake(plan(tensor, "model.vocab=65"),
                {"run.yaml:4: parallel.tensor: 2 ranks cannot share model.vocab 65 equally"});
  ExpectMistake(plan(tensor, "model.ffn_width=63"),
                {"run.yaml:4: parallel.tensor: 2 ranks cannot share model.ffn_width 63 equally"});
  ExpectMistake(RunPlimsoll({"plan", File("run.yaml", kSound + tensor), "--set", "model.sequence=7",
                             "--set", "train.micro_batch=1"}),
                {"run.yaml:4: parallel.sequence: 2 tensor ranks cannot share the tokens of a "
                 "micro-step equally: "
                 "train.micro_batch 1 × model.sequence 7 = 7"});
}

// Each of them would compute all.
TEST_F(BadInput, TensorRanksThatHaveNothingToShare) {
  const std::string image = "image_size: 8, channels: 1";
  for (const auto& [family, more] :
       {std::pair("resnet", "depth: 8, classes: 3, " + image), std::pair("dcgan", image),
        std::pair("unet", std::string("image_height: 8, image_width: 8, levels: 2, features: 2, "
                                      "classes: 3"))}) {
    const std::string yaml = fmt::format("model: {{family: {}, {}}}\n", family, more) +
                             "data: {source: synthetic_images}\nparallel: {tensor: 2}\n"
                             "train: {steps: 1, micro_batch: 2}\n";
    ExpectMistake(RunPlimsoll({"plan", File("run.yaml", yaml)}),
                  {fmt::format("run.yaml:3: parallel.tensor: 2 ranks would each do the same work: "
                               "models of family {} have no layers",
                               family),
                   "leave it out"});
  }
}

TEST_F(BadInput, Tf32OnTheCpu) {
  ExpectMistake(Train(std::string(kSound) + "device: cpu\namp: {dtype: tf32}\n"),
                {"run.yaml:5: amp.dtype: tf32 needs a GPU", "device: cuda"});
}

// A GPU without matrix units for bf16 or TF32 trains all the same.
TEST_F(BadInput, TypesWithoutMatrixUnits) {
  const auto plan = [&](const char* dtype, std::vector<std::string> arguments) {
    const std::string yaml = std::string(kSound) + "amp: {dtype: " + dtype + "}\n";
    arguments.insert(arguments.begin(), {"plan", File("run.yaml", yaml), "--device"});
    return ExpectExit(0, RunPlimsoll(arguments)).err;
  };
  for (const std::string dtype : {"bf16", "tf32"}) {
    EXPECT_THAT(plan(dtype.c_str(), {"t4"}),
                testing::HasSubstr("run.yaml:4: amp.dtype: the NVIDIA T4 has matrix units for fp16 "
                                   "and none for " +
                                   dtype));
    EXPECT_EQ(plan(dtype.c_str(), {"a100"}), "");
    ExpectText(plan(dtype.c_str(), {"a100", "--set", "debug.act_as=7.5"}),
               {"amp.dtype: compute capability 7.5 (debug.act_as) has",
                "; use fp16, or remove debug.act_as"});
  }
  EXPECT_EQ(plan("fp16", {"t4"}), "");
}

// Kernels are those that the GPU runs.
TEST_F(BadInput, ActsAsAnotherGpu) {
  const auto plan = [&](const std::string& capability, const char* device, const char* more = "") {
    return RunPlimsoll({"plan", File("run.yaml", std::string(kSound) + more), "--device", device,
                        "--set", "debug.act_as=" + capability});
  };
  for (const char* none : {"86", "3.5", "9.1"}) {
    ExpectMistake(plan(none, "h200"),
                  {"--set: debug.act_as: " + std::string(none) + ": no compute capability that",
                   "there are 7.5, 8.0, 8.6"});
  }
  ExpectMistake(plan("9.0", "a100"),
                {"debug.act_as: 9.0: a GPU of compute capability 8.0 doesn't run its kernels"});
  ExpectMistake(plan("9.0", "b200"), {"debug.act_as: 9.0: a GPU of compute capability 10.0"});
  ExpectExit(0, plan("12.0", "h200"));
  const char* const fp8 = "amp:\n  dtype: bf16\n  fp8:\n    recipe: current\n";
  ExpectMistake(
      plan("8.6", "4090", fp8),
      {"run.yaml:7: amp.fp8.recipe: current needs matrix units for 8-bit floats, which "
       "compute capability 8.6 (debug.act_as) doesn't have; remove it, or remove debug.act_as"});
}

TEST_F(BadInput, EightBitLayers) {
  const std::string yaml =
      std::string(kSound) + "amp:\n  dtype: bf16\n  fp8:\n    recipe: current\n";
  const auto plan = [&](const std::string& file, const char* device) {
    return RunPlimsoll({"plan", File("run.yaml", file), "--device", device});
  };
  ExpectMistake(plan(yaml, "a100"),
                {"run.yaml:7: amp.fp8.recipe: current needs matrix units for 8-bit floats, which "
                 "the NVIDIA A100 80 GB doesn't have; remove it, or take one of h100, h200, ",
                 "l40s", "4090"});
  ExpectMistake(plan(yaml + "    skip: [block.7.*]\n", "h200"),
                {"run.yaml:8: amp.fp8.skip: no parameter matches 'block.7.*'"});
  for (const char* pattern : {"*.bias", "embed.token.weight", "block.0.norm_1.*"}) {
    ExpectMistake(plan(yaml + "    skip: [\"*.qkv.*\", \"" + pattern + "\"]\n", "h200"),
                  {fmt::format("run.yaml:8: amp.fp8.skip: '{}' matches no weight of a linear layer "
                               "in a block",
                               pattern),
                   "block.0 has block.0.attn.qkv.weight, block.0.attn.proj.weight, "
                   "block.0.mlp.fc.weight, block.0.mlp.proj.weight"});
  }
  EXPECT_THAT(ExpectExit(0, plan(yaml, "h200")).out, HasSubstr("\n8-bit products: "));
  const Outcome json = RunPlimsoll({"plan", File("run.yaml", yaml), "--device", "cpu", "--json"});
  EXPECT_THAT(ExpectExit(0, json).out, HasSubstr("\"eight_bit_products\""));
}

TEST_F(BadInput, AGpuThatThereIsNot) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // as the binary will see it
  ExpectMistake(Train(std::string(kSound) + "device: cuda\n"),
                {"run.yaml:4: device: ", "device: cpu"});
}

// Before the missing data, and before a budget of a GPU that there is not.
TEST_F(BadInput, ABuildWithoutCudaSaysSoFirst) {
  if (runtime::BuiltWithCuda()) GTEST_SKIP() << "this build has CUDA";
  const std::string yaml =
      File("run.yaml",
           "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}\n"
           "data: {train: absent.bin}\n"
           "train: {steps: 2, epochs: 1}\n"
           "memory: {budget: 90%}\n"
           "optimizer: {lr: high}\n"
           "device: cuda\n");
  const std::string way =
      "device: cuda: this build has no CUDA; build one with it (bazel build "
      "--config=cuda //app:plimsoll), or set device: cpu";
  ExpectMistake(RunPlimsoll({"train", yaml}), {"run.yaml:6: " + way});
  ExpectMistake(Train(kSound, {"device=cuda", "memory.budget=90%"}), {"--set: " + way});
  ExpectExit(0, Train(std::string(kSound) + "save: {every: 1}\n"));
  const TempFolder other;
  const std::string run = other / "run";
  std::filesystem::rename(run_, run);
  std::string config = other.Read("run/config.yaml");
  const size_t device = config.find("\ndevice: ") + 1;
  config.replace(device, config.find('\n', device) - device, "device: cuda");
  other.Write("run/config.yaml", config);
  for (const char* command : {"eval", "generate", "predict"}) {
    ExpectMistake(RunPlimsoll({command, run}), {"run/config.yaml:", ": " + way});
  }
  // Plans need no GPU.
  ExpectExit(0, RunPlimsoll({"plan", File("plan.yaml", kSound), "--set", "device=cuda"}));
}

TEST_F(BadInput, MissingRunFile) {
  const Outcome outcome = RunPlimsoll({"train", folder_ / "absent.yaml"});
  ExpectMistake(outcome, {"absent.yaml", "no such file"});
}

TEST_F(BadInput, Data) {
  const std::string yaml =
      "model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}\n"
      "train: {steps: 2, micro_batch: 2, threads: 1}\n";
  auto with = [&](const std::string& path) {
    return Train(yaml + "data: {train: " + path + "}\n");
  };
  ExpectMistake(with(folder_ / "absent.bin"),
                {"run.yaml:3: data.train: no file matches", "absent.bin"});
  ExpectMistake(with(File("empty.bin", "")), {"empty.bin", "empty"});
  ExpectMistake(with(File("odd.bin", std::string(101, '\0'))), {"odd.bin", "101 bytes"});
  ExpectMistake(with(File("short.bin", std::string(20, '\0'))), {"data.train", "10 tokens"});
  // Token 0x4040, with a vocabulary of 64.
  ExpectMistake(with(File("beyond.bin", std::string(400, '\x40'))), {"beyond.bin", "16448", "64"});
}

TEST_F(BadInput, FoldersAndFilesThatAreNotThere) {
  const std::string train = "train: {steps: 2, micro_batch: 2, threads: 1}\n";
  ExpectMistake(
      Train(train + "data: {synthetic: true}\nmodel: {init_from: " + (folder_ / "absent") + "}\n"),
      {"run.yaml:3: model.init_from: ", "absent"});
  const std::string text = File("text.txt", std::string(1000, 'a'));
  ExpectMistake(
      Train("model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 256, sequence: 8}\n" +
            train + "data: {train: " + text + ", tokenizer: " + (folder_ / "absent.json") + "}\n"),
      {"run.yaml:3: data.tokenizer: ", "absent.json"});
  ExpectMistake(Train(train + "data: {synthetic: true}\n"),
                {"run.yaml:1: model.family: missing; give bert, dcgan"});
}

TEST_F(BadInput, PatternsThatMatchNoActivation) {
  const auto with = [](const std::string& keys) {
    return std::string(kSound) + "checkpointing:\n  policy: selective\n  " + keys + "\n";
  };
  ExpectMistake(Train(with("recompute: [norms, \"*.mlp.fcc\"]")),
                {"checkpointing.recompute: '*.mlp.fcc' matches no activation", "layer_norm"});
  ExpectMistake(Train(with("offload: [norms]\ndebug: {host_apart: true}")),
                {"checkpointing.offload: 'norms' matches only what is not kept"});
}

TEST_F(BadInput, ReadOnlyRunDirectory) {
  // A file in the folder's place stops root as well.
  run_ = File("occupied", "") + "/run";
  ExpectMistake(Train(kSound), {"run.dir", "cannot write"});
}

TEST_F(BadInput, ARunDirectoryInUseIsKept) {
  std::filesystem::create_directories(run_);
  WriteFile(run_ + "/metrics.jsonl", "precious\n");
  ExpectExit(2, Train(kSound), {"holds a run already", "run.overwrite"});
  EXPECT_EQ(ReadFile(run_ + "/metrics.jsonl"), "precious\n");
}

TEST_F(BadInput, AReadOnlyRunDirectoryWithDumps) {
  run_ = File("occupied", "") + "/run";
  ExpectMistake(Train(kSound, {"debug.dump_programs=true"}), {"run.dir", "cannot write"});
}

TEST_F(BadInput, ABlockedModelFolderIsNoticedBeforeTraining) {
  std::filesystem::create_directories(run_);
  WriteFile(run_ + "/model", "in the way");
  ExpectExit(2, Train(kSound), {"run.dir"});
  EXPECT_FALSE(std::filesystem::exists(run_ + "/metrics.jsonl"));
}

TEST_F(BadInput, ATokenizerBeyondTheVocabulary) {
  ExpectMistake(Train(kSound, {"data.tokenizer=byte", "train.sample_every=1"}), {"256", "64"});
}

TEST_F(BadInput, HeldOutDataWithoutATarget) {
  const std::string tokens(400, '\1');
  const std::string train = File("train.bin", tokens), eval = File("eval.bin", tokens);
  File("eval.bin.mask", std::string(200, '\0'));
  ExpectMistake(
      Train("model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 300, sequence: 8}\n"
            "data: {train: " +
            train + ", eval: " + eval +
            "}\n"
            "train: {steps: 2, micro_batch: 2, threads: 1}\n"),
      {"data.eval", "ignored"});
}

TEST_F(BadInput, ADecayPatternThatMatchesNothing) {
  ExpectMistake(
      Train(std::string(kSound) +
            "optimizer: {weight_decay_groups: [{pattern: \"*.nosuch\", weight_decay: 0}]}\n"),
      {"optimizer.weight_decay_groups", "*.nosuch"});
}

TEST_F(BadInput, SizesBeyondCounting) {
  ExpectMistake(RunPlimsoll({"plan", File("run.yaml", kSound), "--set", "model.width=10000",
                             "--set", "train.micro_batch=10000000", "--set",
                             "model.sequence=10000000", "--set", "model.max_sequence=10000000"}),
                {"train.micro_batch", "EiB"});
}

TEST_F(BadInput, UnknownCommand) {
  ExpectMistake(RunPlimsoll({"trian", "run.yaml"}), {"trian", "unknown command", "train, plan"});
}

TEST_F(BadInput, EmptyNames) {
  ExpectExit(2, RunPlimsoll({"data", "volumes", "", "--train", "1"}),
             {"folder: is empty; name one"});
  for (const char* share : {"nan", "-0.5", "1"}) {
    const Outcome refused = RunPlimsoll(
        {"data", "tokenize", File("text", "words\n"), "--out", "no", "--eval-fraction", share});
    EXPECT_EQ(refused.exit_code, 2) << share;
    EXPECT_THAT(refused.err, HasSubstr("--eval-fraction: is to be 0 or more and below 1"));
  }
}

TEST_F(BadInput, GlobalBatchArithmetic) {
  ExpectMistake(Train(kSound, {"train.global_batch=5"}), {"train.global_batch", "5", "2"});
}

TEST_F(BadInput, MoreMemoryThanThereIs) {
  ExpectExit(3, Train(kSound, {"model.width=131072", "model.layers=100"}), {"of memory left"});
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(BadInput, GenerateFromNothing) {
  ExpectMistake(RunPlimsoll({"generate", folder_.path()}), {folder_.path(), "config.yaml"});
}

// Files of other programs are called by what they are, with the way to convert them.
TEST_F(BadInput, FilesOfOtherPrograms) {
  const std::string zip = "PK\x03\x04" + std::string(26, '\0') + "archive/data.pkl" + "…";
  std::filesystem::create_directory(folder_ / "meta");
  File("meta/params.json", R"({"dim": 4096})");
  File("meta/consolidated.00.pth", zip);
  File("meta/tokenizer.model", "\n\x0e\n\x05<unk>\x15…");
  std::filesystem::create_directory(folder_ / "torch");
  File("torch/pytorch_model.bin", zip);
  File("torch/config.json",
       R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 1, "n_embd": 16,
           "n_head": 2, "n_positions": 8, "vocab_size": 256})");
  const std::string gguf = File("model.gguf", "GGUF\x03…");
  const std::string meta = folder_ / "meta", torch = folder_ / "torch";

  for (const char* command : {"eval", "generate"}) {
    ExpectMistake(RunPlimsoll({command, meta}),
                  {"consolidated.00.pth: is a pickle with Llama's weights as Meta gives them out",
                   "convert_llama_weights_to_hf"});
    ExpectMistake(RunPlimsoll({command, gguf}), {"model.gguf: is a model of llama.cpp (GGUF)"});
  }
  ExpectMistake(RunPlimsoll({"generate", torch, "--tokenizer", "byte", "--prompt", "a"}),
                {"pytorch_model.bin: is a pickle of PyTorch",
                 "GPT2LMHeadModel.from_pretrained(FOLDER).save_pretrained(OUT"});
  for (const std::string& tokenizer : {meta, meta + "/tokenizer.model"}) {
    ExpectMistake(RunPlimsoll({"generate", torch, "--tokenizer", tokenizer}),
                  {"tokenizer.model: is a tokenizer of SentencePiece", "LlamaTokenizerFast"});
    ExpectMistake(Train(kSound, {"data.synthetic=false", "data.train=" + gguf,
                                 "data.tokenizer=" + tokenizer, "model.vocab=40000"}),
                  {"data.tokenizer", "is a tokenizer of SentencePiece"});
  }
  const std::string data = "data: {synthetic: true}\ntrain: {steps: 2}\n";
  ExpectMistake(Train("model: {init_from: " + meta + "}\n" + data),
                {"model.init_from", "consolidated.00.pth: is a pickle with Llama's weights"});
  ExpectMistake(Train("model: {init_from: " + torch + ", sequence: 8}\n" + data),
                {"pytorch_model.bin: is a pickle of PyTorch"});
}

TEST_F(BadInput, CommandLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"trian"}, {"train"}, {"plan", "a.yaml", "--jsno"}}) {
    const Outcome outcome = ExpectExit(2, RunPlimsoll(arguments));
    EXPECT_FALSE(outcome.err.empty());
  }
  ExpectExit(0, RunPlimsoll({"--help"}));
  EXPECT_THAT(RunPlimsoll({"--version"}).out, testing::MatchesRegex("plimsoll [0-9.]+ \\(.+\\)\n"));
}

}  // namespace
}  // namespace plimsoll
