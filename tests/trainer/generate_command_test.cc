// `plimsoll generate` as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

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
    ASSERT_EQ(RunPlimsoll({"train", yaml_}).exit_code, 0);
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string run_ = folder_ / "run";
};

TEST_F(GenerateCommand, WritesTheTextAndSaysWhatItTook) {
  const Outcome outcome = RunPlimsoll({"generate", run_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("Six"));
  EXPECT_EQ(outcome.out.size(), 3u + 20u + 1u);
  EXPECT_THAT(outcome.err, HasSubstr("prompt of 3 tokens"));
  EXPECT_THAT(outcome.err, HasSubstr("then 19 tokens"));
  EXPECT_THAT(outcome.err, HasSubstr("tokens/s"));
  // 2 layers, keys and values of 22 tokens, 2 heads of 8 values.
  EXPECT_THAT(outcome.err, HasSubstr("cache 5.50 KiB"));
}

// After this much training the model knows its text so well that rounding doesn't matter.
TEST_F(GenerateCommand, SixteenBitsWriteTheSameGreedyText) {
  const std::string full = RunPlimsoll({"generate", run_}).out;
  for (const std::string dtype : {"bf16", "fp16"}) {
    const Outcome low = RunPlimsoll({"generate", run_, "--dtype", dtype});
    ASSERT_EQ(low.exit_code, 0) << low.err;
    EXPECT_EQ(low.out, full) << dtype;
    EXPECT_THAT(low.err, HasSubstr("cache 2.75 KiB"));
  }
}

TEST_F(GenerateCommand, GoesOnBeyondTheContext) {
  const Outcome outcome = RunPlimsoll({"generate", run_, "--tokens", "60", "--count", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("--- 2 of 2\nSix"));
  const Outcome shorter = RunPlimsoll({"generate", run_, "--tokens", "60", "--sequence", "8"});
  ASSERT_EQ(shorter.exit_code, 0) << shorter.err;
  EXPECT_EQ(shorter.out.size(), 3u + 60u + 1u);
}

TEST_F(GenerateCommand, RefusesAContextThatTheModelLacks) {
  for (const std::string& model : {run_, run_ + "/model"}) {
    const Outcome outcome =
        RunPlimsoll({"generate", model, "--sequence", "33", "--tokenizer", "byte"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("model.sequence"));
    EXPECT_THAT(outcome.err, HasSubstr("32"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace plimsoll
