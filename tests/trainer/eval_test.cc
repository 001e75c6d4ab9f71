// `plimsoll eval` as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EvalCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string words, other;
    for (int i = 0; i < 300; ++i) {
      words += "Six, seven, eight: number " + std::to_string(i) + " is alive.\n%\n";
      other += std::to_string(i) + " bottles of milk hang on the wall.\n";
    }
    folder_.Write("text", words);
    folder_.Write("other", other);
    WriteFile(
        yaml_,
        "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32}\n"
        "data: {train: " +
            folder_.path() +
            "/text, format: text, tokenizer: byte,\n"
            "       eval_fraction: 0.2, document_separator: \"%\"}\n"
            "train: {steps: 8, micro_batch: 4, eval_every: 4, eval_sequences: 12, threads: 2}\n"
            "optimizer: {lr: 1e-2}\n"
            "run: {dir: " +
            run_ + "}\n");
    ExpectExit(0, RunPlimsoll({"train", yaml_}));
  }

  json Eval(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    arguments.push_back("--json");
    const Outcome outcome = ExpectExit(0, RunPlimsoll(arguments));
    return json::parse(outcome.out);
  }

  std::vector<double> EvalLosses() {
    std::vector<double> losses;
    for (const json& row : JsonLines(ReadFile(run_ + "/metrics.jsonl"))) {
      if (row.contains("eval_loss")) losses.push_back(row.at("eval_loss"));
    }
    return losses;
  }
  double LastEvalLoss() { return EvalLosses().back(); }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string run_ = folder_ / "run";
};

TEST_F(EvalCommand, GivesTheLossThatTrainingEndedWith) {
  const json result = Eval({run_});
  EXPECT_EQ(result.at("loss").get<double>(), LastEvalLoss());
  EXPECT_EQ(result.at("tokens"), 3 * 4 * 32);
  EXPECT_EQ(result.at("batches"), 3);
  EXPECT_DOUBLE_EQ(result.at("perplexity"), std::exp(LastEvalLoss()));
  EXPECT_DOUBLE_EQ(result.at("bits_per_byte"), LastEvalLoss() / std::log(2.0));
  // Only weights persist, and a few slots: no gradients, no moments.
  const json plan = json::parse(ReadFile(run_ + "/plan.json"));
  EXPECT_EQ(result.at("weight_bytes"), plan.at("bytes_by_role").at("parameter"));
  EXPECT_LT(result.at("arena_bytes"), plan.at("arena_bytes"));

  // The same windows in other batches, the last of which is not full.
  for (const char* batch : {"1", "2", "5", "16"}) {
    const json other = Eval({run_, "--batch", batch});
    EXPECT_EQ(other.at("tokens"), 3 * 4 * 32) << batch;
    EXPECT_NEAR(other.at("loss"), LastEvalLoss(), 1e-6) << batch;
  }
  EXPECT_EQ(Eval({run_, "--limit", "7"}).at("tokens"), 7 * 32);
}

// A plan chooses the micro-batch: early stopping and the best snapshot must not depend on it.
TEST_F(EvalCommand, HeldOutLossesDoNotDependOnTheMicroBatch) {
  std::string examples;  // a third of whose targets carry no loss
  for (int i = 0; i < 80; ++i) {
    const std::string number = std::to_string(i);
    examples += R"({"prompt": "after )" + number + R"( comes", "completion": " )" +
                std::to_string(i + 1) + R"(, and so on from there"})" + "\n";
  }
  folder_.Write("examples.jsonl", examples);
  for (const char* file : {"text", "examples.jsonl"}) {
    std::vector<double> first;
    for (const char* micro_batch : {"1", "2", "3", "8", "16"}) {
      ExpectExit(
          0, RunPlimsoll({"train", yaml_, "--set", "data.train=" + folder_ / file, "--set",
                          "train.global_batch=48", "--set",
                          std::string("train.micro_batch=") + micro_batch, "--set", "train.steps=2",
                          "--set", "train.eval_every=1", "--set", "train.eval_sequences=7", "--set",
                          "optimizer.eps=1e-5", "--set", "run.overwrite=true"}));
      const std::vector<double> losses = EvalLosses();
      if (first.empty()) first = losses;
      ASSERT_EQ(losses.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(losses[i], first[i], 1e-5) << file << ", micro-batch " << micro_batch;
      }
    }
  }
}

// More rows than sequences would only take memory.
TEST_F(EvalCommand, EvaluatesAveragesAsTheRunDid) {
  const std::string run = folder_ / "averaged", to = folder_ / "exported";
  const Outcome trained = ExpectExit(
      0,
      RunPlimsoll({"train", yaml_, "--set", "run.dir=" + run, "--set", "optimizer.ema=0.8", "--set",
                   "save.every=4", "--set", "train.monitor=ema_loss", "--set", "save.best=true"}));
  EXPECT_THAT(trained.out, HasSubstr("averages in " + run + "/model_ema"));
  std::vector<json> rows;
  for (const json& row : JsonLines(ReadFile(run + "/metrics.jsonl"))) {
    if (row.contains("eval_ema_loss")) rows.push_back(row);
  }
  ASSERT_EQ(rows.size(), 3u);
  // Before the first update there are no averages.
  EXPECT_EQ(rows[0].at("eval_ema_loss"), rows[0].at("eval_loss"));
  EXPECT_NE(rows[2].at("eval_ema_loss"), rows[2].at("eval_loss"));
  EXPECT_EQ(Eval({run, "--ema"}).at("loss"), rows[2].at("eval_ema_loss"));
  EXPECT_EQ(Eval({run}).at("loss"), rows[2].at("eval_loss"));
  EXPECT_EQ(Eval({run, "--ema", "--step", "4"}).at("loss"), rows[1].at("eval_ema_loss"));
  EXPECT_EQ(Eval({run, "--ema", "--best"}).at("loss"), rows[2].at("eval_ema_loss"));
  ExpectExit(0, RunPlimsoll({"export", run, "--ema", "--step", "8", "--to", to}));
  EXPECT_EQ(ReadFile(to + "/model.safetensors"), ReadFile(run + "/model_ema/model.safetensors"));

  const auto refused = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"eval", "--ema"});
    const Outcome outcome = ExpectExit(2, RunPlimsoll(arguments));
    return outcome.err;
  };
  EXPECT_THAT(refused({run_}), HasSubstr("--ema: " + run_ + " has neither snapshots nor"));
  EXPECT_THAT(refused({run + "/model"}), HasSubstr("has weights alone"));
}

TEST_F(EvalCommand, TakesNoMoreRowsThanThereAreSequences) {
  const json all = Eval({run_, "--batch", "12"}), more = Eval({run_, "--batch", "1048576"});
  for (const char* key : {"loss", "tokens", "batches", "batch", "arena_bytes"}) {
    EXPECT_EQ(more.at(key), all.at(key)) << key;
  }
  EXPECT_EQ(more.at("batch"), 12);
}

TEST_F(EvalCommand, EvaluatesOtherFilesWhole) {
  const json text = Eval({run_, "--data", folder_ / "other"});
  EXPECT_GT(text.at("loss"), LastEvalLoss());
  // Windows of 32 over the text's 11,190 bytes.
  EXPECT_EQ(text.at("tokens"), (ReadFile(folder_ / "other").size() - 1) / 32 * 32);

  // A checkpoint alone, and the same text as tokens.
  const json alone = Eval({run_ + "/model", "--data", folder_ / "other", "--tokenizer", "byte"});
  EXPECT_NEAR(alone.at("loss"), text.at("loss"), 1e-6);  // in batches of 8
  ASSERT_EQ(RunPlimsoll({"data", "tokenize", folder_ / "other", "--out", folder_ / "tokens",
                         "--tokenizer", "byte"})
                .exit_code,
            0);
  const json tokens = Eval({run_ + "/model", "--data", folder_ / "tokens/train_*.bin"});
  EXPECT_NEAR(tokens.at("loss"), text.at("loss"), 1e-6);
  EXPECT_TRUE(tokens.at("bits_per_byte").is_null());
}

TEST_F(EvalCommand, TakesHalfTheMemoryForWeightsInSixteenBits) {
  const json full = Eval({run_});
  // Rounded weights change the loss slightly; that it changes shows that they are rounded.
  for (const auto& [dtype, tolerance] : {std::pair("bf16", 0.02), std::pair("fp16", 0.003)}) {
    const json low = Eval({run_, "--dtype", dtype});
    EXPECT_NEAR(low.at("loss"), full.at("loss"), tolerance) << dtype;
    EXPECT_NE(low.at("loss"), full.at("loss")) << dtype;
    EXPECT_EQ(low.at("weight_bytes").get<int64_t>() * 2, full.at("weight_bytes")) << dtype;
    EXPECT_EQ(low.at("dtype"), dtype);
  }
}

// NaN or infinity in results is an error; the work had begun, so the exit code isn't 2.
TEST_F(EvalCommand, WeightsThatAreNoNumbersAreAnError) {
  const std::string path = run_ + "/model/model.safetensors";
  std::string bytes = ReadFile(path);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof(nan), &nan, sizeof(nan));
  WriteFile(path, bytes);
  const Outcome eval = ExpectExit(1, RunPlimsoll({"eval", run_, "--json"}));
  EXPECT_EQ(eval.out, "");
  ExpectText(eval.err, {run_ + ": the loss is nan: ", " holds NaN or infinity"});
  ExpectExit(1, RunPlimsoll({"generate", run_, "--tokens", "5"}),
             {run_ + ": the next token's logits", " holds NaN or infinity"});
}

TEST_F(EvalCommand, SaysWhatIsWrong) {
  const auto expect = [](std::vector<std::string> arguments, std::vector<std::string> parts) {
    arguments.insert(arguments.begin(), "eval");
    const Outcome outcome = ExpectExit(2, RunPlimsoll(arguments));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  expect({folder_.path()}, {folder_.path(), "config.yaml"});
  expect({run_ + "/model"}, {"--data"});
  expect({run_, "--tokenizer", "byte"}, {"--tokenizer", "--data"});
  expect({run_ + "/model", "--data", folder_ / "other"}, {"--data", "--tokenizer"});
  expect({run_, "--data", folder_ / "missing"}, {"--data", "missing"});
  expect({run_, "--data", folder_ / "missing.bin", folder_ / "other"}, {"--data", "one kind"});
  expect({run_, "--dtype", "int4"}, {"--dtype", "int4", "bf16"});
  expect({run_, "--sequence", "64"}, {"model.sequence", "32"});
  folder_.Write("short", "too short");
  expect({run_, "--data", folder_ / "short"}, {"--data"});
}

}  // namespace
}  // namespace plimsoll
