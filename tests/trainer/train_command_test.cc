// `plimsoll train`, `plan`, `config` and `generate` as users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

class TrainCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string words;
    for (int i = 0; i < 400; ++i) {
      words += "One, two, three, four, five: number " + std::to_string(i) + " is alive.\n%\n";
    }
    folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte,\n"
                  "       eval_fraction: 0.2, document_separator: \"%\"}\n"
                  "train: {steps: 12, micro_batch: 4, eval_every: 4, log_every: 5, threads: 2}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "schedule: {name: cosine, warmup: 2}\n"
                  "sample: {prompt: \"One\", tokens: 20}\n"
                  "run: {dir: " +
                  run_ + "}\n");
  }

  Outcome Train(std::vector<std::string> sets = {}) {
    return RunPlimsoll(WithSets({"train", yaml_, "--set", "run.overwrite=true"}, sets));
  }

  std::vector<json> Metrics() { return JsonLines(ReadFile(run_ + "/metrics.jsonl")); }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  std::string run_ = folder_ / "run";
};

TEST_F(TrainCommand, LeavesACompleteRunDirectory) {
  const Outcome outcome = ExpectExit(0, Train());
  ExpectText(outcome.out, {"step  0/12", "step 11/12", "arena"});
  EXPECT_EQ(outcome.out.find('\r'), std::string::npos);  // a plain log off a terminal

  // The most important results, in five lines.
  const json summary = json::parse(ReadFile(run_ + "/summary.json"));
  const std::string closing = outcome.out.substr(outcome.out.find("\nloss    ") + 1);
  EXPECT_EQ(std::ranges::count(closing, '\n'), 5) << outcome.out;
  std::ostringstream losses;
  losses.precision(4);
  losses << std::fixed << " → " << summary.at("loss").get<double>() << " in 12 steps, held out "
         << summary.at("best_eval_loss").get<double>() << " at best, after 12\ntime    ";
  ExpectText(closing, {losses.str(), " tokens/s\nmemory  arena "});
  EXPECT_THAT(closing, testing::EndsWith("\nmodel   " + run_ + "/model\nreport  " + run_ +
                                         "/report.html\n"));
  for (const char* none : {"memory.summary=none", "memory.summary=false"}) {
    EXPECT_THAT(Train({none}).out, testing::Not(HasSubstr("\nmemory  ")));
  }

  const std::vector<json> rows = Metrics();
  int steps = 0, evaluations = 0;
  double first = 0, last = 0;
  for (const json& row : rows) {
    if (row.contains("eval_loss")) {
      (evaluations++ == 0 ? first : last) = row.at("eval_loss");
      continue;
    }
    EXPECT_EQ(row.at("step"), steps++);
    for (const char* key : {"loss", "lr", "grad_norm", "step_ms", "data_ms", "tokens_per_s", "mfu",
                            "arena_bytes", "loss_scale", "skipped"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(evaluations, 4);  // after 0, 4, 8 and 12 steps
  EXPECT_LT(last, first);

  const json plan = json::parse(ReadFile(run_ + "/plan.json"));
  EXPECT_EQ(plan.at("arena_bytes"), rows[1].at("arena_bytes"));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/model/model.safetensors"));
}

// model.seed draws the weights, data.seed the order; train.seed replaces either if it is not given,
// and is the only seed of dropout.
TEST_F(TrainCommand, WeightsAndDataHaveSeedsOfTheirOwn) {
  const auto losses = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"train.steps=3", "train.eval_every=0", "save.model=false",
                             "memory.summary=false"});
    ExpectExit(0, Train(sets));
    std::vector<double> found;
    for (const json& row : Metrics()) found.push_back(row.at("loss"));
    return found;
  };
  const std::vector<double> plain = losses({});
  EXPECT_EQ(losses({"train.seed=2", "model.seed=1337", "data.seed=1337"}), plain);
  EXPECT_EQ(losses({"model.seed=2", "data.seed=2"}), losses({"train.seed=2"}));
  const std::vector<double> model = losses({"model.seed=2"}), data = losses({"data.seed=2"});
  EXPECT_NE(model, plain);
  EXPECT_NE(data, plain);
  EXPECT_NE(model, data);
  const std::vector<std::string> fixed = {"model.dropout=0.5", "model.seed=1", "data.seed=1"};
  std::vector<std::string> other = fixed;
  other.push_back("train.seed=2");
  EXPECT_NE(losses(fixed), losses(other));
}

TEST_F(TrainCommand, StopsInTheMiddleOfItsScheduleAndSumsUp) {
  ExpectExit(0, Train({"checkpointing.policy=block"}));
  const std::vector<json> whole = Metrics();
  const json plan = json::parse(ReadFile(run_ + "/plan.json"));
  ASSERT_EQ(Train({"checkpointing.policy=block", "train.stop_after=5", "save.model=false",
                   "debug.check_arena=true"})
                .exit_code,
            0);
  const std::vector<json> rows = Metrics();
  ASSERT_EQ(rows.size(), 8u);  // 5 steps, and evaluations after 0, 4 and 5
  EXPECT_EQ(rows[6].at("step"), 4);
  EXPECT_EQ(rows[6].at("lr"), whole[6].at("lr"));
  EXPECT_EQ(rows[6].at("loss"), whole[6].at("loss"));
  EXPECT_FALSE(std::filesystem::exists(run_ + "/model/model.safetensors"));
  const json summary = json::parse(ReadFile(run_ + "/summary.json"));
  EXPECT_EQ(summary.at("steps"), 5);
  EXPECT_EQ(summary.at("loss"), rows[rows.size() - 2].at("loss"));
  EXPECT_EQ(summary.at("eval_loss"), rows.back().at("eval_loss"));
  EXPECT_EQ(summary.at("tokens_per_step"), 4 * 32);
  EXPECT_EQ(summary.at("arena_bytes"), plan.at("arena_bytes"));
  EXPECT_EQ(summary.at("bytes_by_role"), plan.at("bytes_by_role"));
  EXPECT_LE(summary.at("step_ms_low"), summary.at("step_ms"));
  EXPECT_LE(summary.at("step_ms"), summary.at("step_ms_high"));
  EXPECT_GT(summary.at("step_ms_low"), 0);
  EXPECT_GT(summary.at("data_ms"), 0);
  // Two of three forward passes' products are made again: blocks, but not the loss.
  EXPECT_GT(summary.at("recompute_share"), 0.1);
  EXPECT_LT(summary.at("recompute_share"), 0.25);
  EXPECT_EQ(summary.at("offloaded_bytes_per_step"), 0);
}

TEST_F(TrainCommand, ProfilesTheStepsThatWereAskedFor) {
  const auto profile = [&](const std::string& flag) {
    return RunPlimsoll({"train", yaml_, flag, "--set", "run.overwrite=true"});
  };
  const Outcome outcome = ExpectExit(0, profile("--profile=4:2"));
  ExpectText(outcome.out, {"steps 4 to 5, node by node", "linear_dw", run_ + "/trace.json"});
  const json trace = json::parse(ReadFile(run_ + "/trace.json"));
  int updates = 0;
  for (const json& event : trace.at("traceEvents")) {
    updates += event.at("ph") == "X" && event.at("tid") == 0 && event.at("name") == "train: update";
  }
  EXPECT_EQ(updates, 2);
  const json totals = json::parse(ReadFile(run_ + "/profile.json"));
  EXPECT_EQ(totals.at("steps"), 2);
  EXPECT_GT(totals.at("step_ms"), 0);
  EXPECT_GT(totals.at("data_ms"), 0);
  EXPECT_EQ(totals.at("collectives").at("ms"), 0);

  ExpectExit(0, profile("--profile"));
  for (const char* flag : {"--profile=x", "--profile=4:0", "--profile=11:2", "--profile=-1"}) {
    const Outcome wrong = profile(flag);
    EXPECT_EQ(wrong.exit_code, 2) << flag;
    EXPECT_THAT(wrong.err, HasSubstr(flag));
  }
}

TEST_F(TrainCommand, TheResolvedConfigRepeatsTheRun) {
  ExpectExit(0, Train());
  const std::vector<json> rows = Metrics();
  const std::string resolved = folder_ / "resolved.yaml";
  std::filesystem::copy_file(run_ + "/config.yaml", resolved);
  ExpectExit(0, RunPlimsoll({"train", resolved, "--set", "run.overwrite=true"}));
  const std::vector<json> again = Metrics();
  ASSERT_EQ(again.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].contains("loss")) {
      EXPECT_EQ(rows[i].at("loss"), again[i].at("loss"));
    }
  }
}

// The model of a replaced run would not fit the new run's configuration.
TEST_F(TrainCommand, OverwritingTakesTheOldModelAway) {
  ExpectExit(0, Train());
  ASSERT_EQ(Train({"schedule.warmup=0", "optimizer.name=sgd", "optimizer.lr=1000",
                   "optimizer.clip_grad_norm=0", "schedule.name=constant"})
                .exit_code,
            1);  // it diverges, so it leaves no model
  EXPECT_FALSE(std::filesystem::exists(run_ + "/model/model.safetensors"));
  ExpectExit(2, RunPlimsoll({"generate", run_}));
}

TEST_F(TrainCommand, GlobalBatchFixesAccumulation) {
  ExpectExit(0, Train({"train.global_batch=12", "train.steps=2", "schedule.warmup=0"}));
  EXPECT_EQ(json::parse(ReadFile(run_ + "/plan.json")).at("accumulate"), 3);
}

TEST_F(TrainCommand, StopsEarly) {
  // With a rate of almost zero, the evaluations after the first never improve.
  const Outcome outcome = ExpectExit(0, Train({"train.early_stop=2", "train.eval_every=2",
                                               "optimizer.lr=1e-30", "schedule.name=constant"}));
  EXPECT_THAT(outcome.out, HasSubstr("stopped early"));
  EXPECT_LT(Metrics().size(), 12u);
}

TEST_F(TrainCommand, LooksAtTheMetricThatItIsTold) {
  // The loss falls: with max, the first evaluation is the best.
  const Outcome outcome =
      ExpectExit(0, Train({"train.monitor_mode=max", "train.early_stop=2", "save.best=true"}));
  ExpectText(outcome.out, {"stopped early: 2 evaluations without improvement",
                           "weights after 0 steps taken, of the best held-out loss"});
  // A metric that the model lacks is refused before anything is replaced.
  const std::string metrics = ReadFile(run_ + "/metrics.jsonl");
  ExpectExit(2, Train({"train.monitor=accuracy"}),
             {"--set: train.monitor: 'accuracy' is no metric of this "
              "model; it may be loss\n"});
  EXPECT_EQ(ReadFile(run_ + "/metrics.jsonl"), metrics);
  // A resumed run with another direction begins its comparisons anew.
  const Outcome resumed =
      ExpectExit(0, RunPlimsoll({"train", yaml_, "--resume", "auto", "--set", "train.early_stop=2",
                                 "--set", "save.best=true"}));
  EXPECT_THAT(resumed.out, testing::Not(HasSubstr("stopped early")));
}

TEST_F(TrainCommand, TellsTheFirstNumbersOfAnEvaluation) {
  WriteFile(yaml_,
            "model: {family: unet, image_depth: 8, image_height: 8, image_width: 8, levels: 2, "
            "features: 2, classes: 15}\n"
            "data: {source: synthetic_volumes, volumes: 4, held_out: 2}\n"
            "train: {steps: 1, micro_batch: 1, eval_every: 1, threads: 1}\n"
            "memory: {summary: none, calibrate: false}\n"
            "run: {dir: " +
                run_ + "}\n");
  const Outcome outcome = ExpectExit(0, RunPlimsoll({"train", yaml_}));
  // The mean, and classes 1 to 11 of 14.
  EXPECT_THAT(outcome.out,
              ContainsRegex("evaluation after 1 step: held-out loss [0-9.]+, dice [0-9.]+, "
                            "dice.1 [0-9.]+, .*, dice.11 [0-9.]+, and 3 more in metrics.jsonl"));
}

TEST_F(TrainCommand, StopsAtALossThatIsNotFinite) {
  ExpectExit(1,
             Train({"optimizer.name=sgd", "optimizer.lr=1000", "optimizer.clip_grad_norm=0",
                    "schedule.name=constant"}),
             {"not finite"});
}

TEST_F(TrainCommand, SamplesWhileTraining) {
  const Outcome outcome = ExpectExit(0, Train({"train.sample_every=6", "sample.count=2"}));
  EXPECT_THAT(outcome.out, HasSubstr("--- sample 2 of 2\nOne"));
  std::vector<std::pair<int, int>> samples;
  for (const json& sample : JsonLines(ReadFile(run_ + "/samples.jsonl"))) {
    samples.emplace_back(sample.at("step"), sample.at("sample"));
    const std::string text = sample.at("text");
    EXPECT_THAT(text, testing::StartsWith("One"));
    EXPECT_THAT(outcome.out, HasSubstr(text));
  }
  EXPECT_EQ(samples, (std::vector<std::pair<int, int>>{{6, 1}, {6, 2}, {12, 1}, {12, 2}}));
  ExpectExit(0, Train());
  EXPECT_FALSE(std::filesystem::exists(run_ + "/samples.jsonl"));  // of the run that was replaced
}

TEST_F(TrainCommand, SaysNothingWhenItIsToBeQuiet) {
  for (const char* quiet : {"--quiet", "-q"}) {
    const Outcome outcome =
        ExpectExit(0, RunPlimsoll({"train", yaml_, quiet, "--set", "run.overwrite=true", "--set",
                                   "checkpointing.every=2", "--set", "train.sample_every=6"}));
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::StartsWith("warning: "));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST_F(TrainCommand, GeneratesFromARunAndStartsFromItsModel) {
  ExpectExit(0, Train());
  const Outcome one =
      ExpectExit(0, RunPlimsoll({"generate", run_, "--tokens", "10", "--prompt", "three"}));
  EXPECT_EQ(one.out.substr(0, 5), "three");
  const Outcome folder = ExpectExit(0, RunPlimsoll({"generate", run_ + "/model", "--tokens", "10",
                                                    "--prompt", "three", "--tokenizer", "byte"}));
  EXPECT_EQ(folder.out, one.out);

  // A run that starts from those weights has the other's final loss at first.
  const double ended = Metrics().back().at("eval_loss");
  WriteFile(yaml_, "model: {init_from: " + run_ +
                       "/model}\n"
                       "data: {train: " +
                       folder_.path() +
                       "/text, format: text, tokenizer: byte,\n"
                       "       eval_fraction: 0.2, document_separator: \"%\"}\n"
                       "train: {steps: 1, micro_batch: 4, threads: 2}\n"
                       "run: {dir: " +
                       folder_.path() + "/second}\n");
  ExpectExit(0, Train());
  run_ = folder_ / "second";
  // Its resolved configuration includes the checkpoint's settings.
  EXPECT_THAT(ReadFile(run_ + "/config.yaml"), HasSubstr("sequence: 32"));
  ExpectExit(0, RunPlimsoll({"generate", run_, "--tokens", "5"}));
  EXPECT_EQ(Metrics().front().at("eval_loss"), ended);
}

TEST_F(TrainCommand, PlansWithoutTraining) {
  const Outcome text = ExpectExit(0, RunPlimsoll({"plan", yaml_}));
  for (const char* part : {"parameters", "gradients", "optimizer state", "activations", "workspace",
                           "max live", "arena", "fragmentation", "Peak", "FLOPs a step"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const json plan = json::parse(RunPlimsoll({"plan", yaml_, "--json"}).out);
  EXPECT_GT(plan.at("arena_bytes"), 0);
  EXPECT_GT(plan.at("max_live_bytes"), 0);
  EXPECT_GT(plan.at("flops_per_step"), 0);
  EXPECT_FALSE(std::filesystem::exists(run_));
  // The announced plan is the plan of training.
  ExpectExit(0, Train());
  EXPECT_EQ(json::parse(ReadFile(run_ + "/plan.json")).at("arena_bytes"), plan.at("arena_bytes"));
}

TEST_F(TrainCommand, ConfigPrintsWhatWouldRun) {
  const Outcome outcome = ExpectExit(0, RunPlimsoll({"config", yaml_, "--set", "train.steps=77"}));
  EXPECT_THAT(outcome.out, HasSubstr("steps: 77"));
}

TEST_F(TrainCommand, ConfigComparesTwo) {
  ExpectExit(0, Train({"train.steps=2", "schedule.name=constant", "run.name=other"}));
  const auto diff = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"config", yaml_, "--diff", run_});
    const Outcome outcome = ExpectExit(0, RunPlimsoll(more));
    return outcome.out;
  };
  json expected = json::array();
  const auto differs = [&](const char* key, const json& left, const json& right) {
    expected.push_back({{"key", key}, {"left", left}, {"right", right}});
  };
  differs("train.steps", "12", "2");
  differs("schedule.name", "cosine", "constant");
  differs("schedule.min_lr", "0", nullptr);
  differs("run.overwrite", "false", "true");
  differs("run.name", "\"\"", "other");
  EXPECT_EQ(json::parse(diff({"--json"})), expected);
  const std::string table = diff({});
  EXPECT_EQ(std::ranges::count(table, '\n'), 6) << table;
  EXPECT_THAT(table,
              testing::MatchesRegex("key +[^ ]+/run.yaml +[^ ]+/run\ntrain.steps +12 +2\n(.|\n)*"));
  EXPECT_THAT(RunPlimsoll({"config", yaml_, "--diff", yaml_}).out, HasSubstr("the same"));
  ExpectExit(2, RunPlimsoll({"config", yaml_, "--diff", folder_ / "nowhere"}));
}

TEST_F(TrainCommand, DumpsPrograms) {
  ExpectExit(0, Train({"debug.dump_programs=true", "train.steps=1", "schedule.warmup=0"}));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/programs/train.00.build.txt"));
  EXPECT_TRUE(std::filesystem::exists(run_ + "/programs/train.02.autodiff.txt"));
}

TEST_F(TrainCommand, TokenizesAndInspects) {
  const std::string out = folder_ / "tokens";
  ExpectExit(0, RunPlimsoll({"data", "tokenize", folder_ / "text", "--out", out, "--eval-fraction",
                             "0.1"}));
  const Outcome inspected = ExpectExit(
      0, RunPlimsoll({"data", "inspect", out + "/train_000000.bin", "--tokenizer", "byte"}));
  EXPECT_THAT(inspected.out, HasSubstr("One, two"));
}

}  // namespace
}  // namespace plimsoll
