// `plimsoll generate` as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string words;
    for (int i = 0; i < 300; ++i) {
      words += "Six, seven, eight: number " + std::to_string(i) + " is alive.\n";
    }
    folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: llama, layers: 2, width: 32, heads: 4, kv_heads: 2, sequence: 32}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte}\n"
                  "train: {steps: 30, micro_batch: 4, threads: 2}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "sample: {prompt: \"Six\", tokens: 20, temperature: 0}\n"
                  "run: {dir: " +
                  run_ + "}\n");
    ExpectExit(0, RunPlimsoll({"train", yaml_}));
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string run_ = folder_ / "run";
};

TEST_F(GenerateCommand, WritesTheTextAndSaysWhatItTook) {
  const Outcome outcome = ExpectExit(0, RunPlimsoll({"generate", run_}));
  EXPECT_THAT(outcome.out, StartsWith("Six"));
  EXPECT_EQ(outcome.out.size(), 3u + 20u + 1u);
  ExpectText(outcome.err, {"prompt of 3 tokens", "then 19 tokens", "tokens/s"});
  // 2 layers, keys and values of 22 tokens, 2 heads of 8 values.
  EXPECT_THAT(outcome.err, HasSubstr("cache 5.50 KiB"));
}

// After this much training the model knows its text so well that rounding doesn't matter.
TEST_F(GenerateCommand, SixteenBitsWriteTheSameGreedyText) {
  const std::string full = RunPlimsoll({"generate", run_}).out;
  for (const std::string dtype : {"bf16", "fp16"}) {
    const Outcome low = ExpectExit(0, RunPlimsoll({"generate", run_, "--dtype", dtype}));
    EXPECT_EQ(low.out, full) << dtype;
    EXPECT_THAT(low.err, HasSubstr("cache 2.75 KiB"));
  }
}

// On a GPU; a CPU has no default but fp32.
TEST_F(GenerateCommand, ComputesInTheTypeOfTheRunOrTheFolder) {
  using runtime::DeviceKind;
  const auto dtype = [&](const std::string& folder, DeviceKind device = DeviceKind::kCuda) {
    return trainer::DefaultDtype(trainer::OpenTrainedModel(folder, {}, {}), device);
  };
  EXPECT_EQ(dtype(run_), "fp32");
  for (const std::string type : {"bf16", "fp16"}) {
    const std::string run = folder_ / type;
    ExpectExit(0,
               RunPlimsoll({"train", yaml_, "--set", "run.dir=" + run, "--set", "amp.dtype=" + type,
                            "--set", "train.steps=1", "--set", "save.every=1"}));
    EXPECT_EQ(dtype(run), type);
    EXPECT_EQ(dtype(run, DeviceKind::kCpu), "fp32");
    EXPECT_EQ(dtype(run + "/snapshots/step-000000001"), type);
    EXPECT_EQ(dtype(run + "/model"), "fp32");  // its weights are
  }
  nlohmann::json config = nlohmann::json::parse(ReadFile(run_ + "/model/config.json"));
  config["torch_dtype"] = "bfloat16";
  WriteFile(run_ + "/model/config.json", config.dump());
  EXPECT_EQ(dtype(run_ + "/model"), "bf16");
  EXPECT_EQ(dtype(run_ + "/model", DeviceKind::kCpu), "fp32");
  config["dtype"] = "float16";
  WriteFile(run_ + "/model/config.json", config.dump());
  EXPECT_EQ(dtype(run_ + "/model"), "fp16");
}

TEST_F(GenerateCommand, GoesOnBeyondTheContext) {
  const Outcome outcome =
      ExpectExit(0, RunPlimsoll({"generate", run_, "--tokens", "60", "--count", "2"}));
  EXPECT_THAT(outcome.out, HasSubstr("--- 2 of 2\nSix"));
  const Outcome shorter =
      ExpectExit(0, RunPlimsoll({"generate", run_, "--tokens", "60", "--sequence", "8"}));
  EXPECT_EQ(shorter.out.size(), 3u + 60u + 1u);
}

TEST_F(GenerateCommand, StopsBeforeATextAndDrawsFromTheNucleus) {
  const std::string whole = RunPlimsoll({"generate", run_, "--tokens", "40"}).out;
  const std::string stop = whole.substr(9, 3), text = whole.substr(0, whole.find(stop, 3));
  const Outcome stopped = ExpectExit(
      0, RunPlimsoll({"generate", run_, "--tokens", "40", "--stop", "no such", "--stop", stop}));
  EXPECT_EQ(stopped.out, text + "\n");
  const Outcome two =
      RunPlimsoll({"generate", run_, "--tokens", "40", "--stop", stop, "--count", "2"});
  EXPECT_EQ(two.out, "--- 1 of 2\n" + text + "\n--- 2 of 2\n" + text + "\n");
  // The smallest nucleus is the likeliest token.
  const Outcome nucleus =
      RunPlimsoll({"generate", run_, "--tokens", "40", "--temperature", "1", "--top-p", "0.001"});
  EXPECT_EQ(nucleus.out, whole);

  for (const auto& [option, value, part] :
       {std::tuple("--top-p", "0", "sample.top_p"), std::tuple("--top-p", "1.5", "sample.top_p"),
        std::tuple("--stop", "", "--stop: an empty text")}) {
    const Outcome refused = RunPlimsoll({"generate", run_, option, value});
    EXPECT_EQ(refused.exit_code, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr(part));
  }
}

TEST_F(GenerateCommand, RefusesAContextThatTheModelLacks) {
  for (const std::string& model : {run_, run_ + "/model"}) {
    const Outcome outcome =
        ExpectExit(2, RunPlimsoll({"generate", model, "--sequence", "33", "--tokenizer", "byte"}),
                   {"model.sequence", "32"});
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace plimsoll
