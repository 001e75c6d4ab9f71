// `plimsoll train` when training diverges: with an outlier batch at a known step, and with learning
// rates that blow up the weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

constexpr int kTokens = 64;  // a step
constexpr int kBad = 20;     // the step with the outlier batch

Sets operator+(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Sets kSkip = {"divergence.action=skip"}, kRollback = {"divergence.action=rollback"};

class DivergenceCommand : public testing::Test {
 protected:
  DivergenceCommand() {
    WriteData("text", kBad, kBad + 1);
    WriteData("clean", 0, 0);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 32, heads: 2, sequence: 16}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte, order: consecutive}\n"
                  "train: {steps: 28, micro_batch: 4, eval_every: 0, log_every: 10, threads: 1}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "schedule: {name: constant, warmup: 0}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "log: {tensorboard: false}\n"
                  "save: {every: 5, model: false}\n"
                  "divergence: {spike: 6, window: 8}\n");
  }

  // The same letters again and again, a whole number of times in a step, except for some steps.
  void WriteData(const std::string& name, int first_bad, int end_bad) const {
    std::mt19937 random(3);
    std::string text;
    for (int i = 0; i < 60 * kTokens; ++i) {
      const int step = i / kTokens;
      const bool bad = step >= first_bad && step < end_bad;
      text += static_cast<char>(bad ? '!' + random() % 30 : 'A' + i % 32);
    }
    folder_.Write(name, text);
  }

  Outcome Train(const Sets& sets = {}, const Sets& more = {}) const {
    return RunPlimsoll(WithSets({"train", yaml_, "--set", "run.dir=" + run_}, sets, more));
  }
  Outcome Resume(const Sets& sets = {}) const { return Train(sets, {"--resume", "auto"}); }
  std::string Data(const std::string& name) const { return "data.train=" + folder_ / name; }

  std::vector<json> Rows() const { return JsonLines(ReadFile(run_ + "/metrics.jsonl")); }
  // The rows without values that differ from run to run.
  std::vector<std::string> Numbers() const {
    std::vector<std::string> numbers;
    for (json row : Rows()) {
      for (const char* key :
           {"step_ms", "data_ms", "tokens_per_s", "arena_bytes", "resident_bytes"}) {
        row.erase(key);
      }
      numbers.push_back(row.dump());
    }
    return numbers;
  }
  std::vector<double> Losses() const {
    std::vector<double> losses;
    for (const json& row : Rows()) losses.push_back(row.at("loss"));
    return losses;
  }
  // The rows of the same run without interruption.
  std::vector<std::string> NumbersOfWhole(const Sets& sets) {
    const std::string run = std::exchange(run_, folder_ / "whole");
    ExpectExit(0, Train(sets + Sets{"run.overwrite=true"}));
    const std::vector<std::string> numbers = Numbers();
    run_ = run;
    return numbers;
  }
  std::vector<std::string> Snapshots() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ + "/snapshots")) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  std::string run_ = folder_ / "run";
};

TEST_F(DivergenceCommand, StopsAtASpike) {
  ExpectExit(1, Train(),
             {"step 20: loss ",
              ": 6 standard deviations (divergence.spike) above the mean of "
              "8 losses; stopped"});
  const std::vector<json> rows = Rows();
  ASSERT_EQ(rows.size(), kBad + 1u);
  EXPECT_FALSE(rows[8].contains("loss_limit"));  // for losses until two steps before
  EXPECT_TRUE(rows[9].contains("loss_limit"));
  EXPECT_GT(rows.back().at("loss").get<double>(), rows.back().at("loss_limit").get<double>());
  EXPECT_THAT(rows.back().at("diverged").get<std::string>(), HasSubstr("stopped"));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000015", "step-000000020"));
  EXPECT_THAT(ReadFile(run_ + "/report.html"), HasSubstr("\"Divergence\""));
}

TEST_F(DivergenceCommand, NothingHappensUnlessAskedFor) {
  ExpectExit(0, Train({"divergence.spike=0"}));
  EXPECT_EQ(Losses().size(), 28u);
  for (const json& row : Rows())
    EXPECT_FALSE(row.contains("loss_limit") || row.contains("diverged"));
}

TEST_F(DivergenceCommand, SkipsTheStep) {
  const Outcome outcome = ExpectExit(0, Train(kSkip));
  EXPECT_THAT(outcome.out, HasSubstr("; its update was skipped"));
  const std::vector<json> rows = Rows();
  ASSERT_EQ(rows.size(), 28u);
  for (const json& row : rows) {
    EXPECT_EQ(row.contains("diverged"), row.at("step") == kBad) << row;
    EXPECT_EQ(row.at("skipped"), row.at("step") < kBad ? 0 : 1);
  }
  EXPECT_THAT(ReadFile(run_ + "/metrics.csv"), HasSubstr("its update was skipped"));
  // Without the gate the loss of the bad step is the same, and that of the step after it differs.
  const std::vector<double> skipping = Losses();
  ExpectExit(0, Train({"divergence.spike=0", "run.overwrite=true"}));
  const std::vector<double> not_skipping = Losses();
  EXPECT_TRUE(std::equal(skipping.begin(), skipping.begin() + kBad + 1, not_skipping.begin()));
  EXPECT_NE(skipping[kBad + 1], not_skipping[kBad + 1]);
}

// A gate that is never closed gives the same bits as none.
TEST_F(DivergenceCommand, SkippingChangesNothingWhereNothingIsSkipped) {
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    const Sets sets = {Data("clean"),         std::string("amp.dtype=") + dtype,
                       "run.overwrite=true",  "train.accumulate=2",
                       "train.micro_batch=2", "train.steps=12"};
    ExpectExit(0, Train(sets));
    const std::vector<std::string> plain = Numbers();
    ExpectExit(0, Train(sets + kSkip));
    EXPECT_EQ(Numbers(), plain);
  }
}

TEST_F(DivergenceCommand, SkipsInEveryType) {
  for (const Sets& way : {Sets{"amp.dtype=bf16"}, Sets{"amp.dtype=fp16"},
                          Sets{"train.global_batch=4", "train.micro_batch=1"},
                          Sets{"optimizer.place=host", "optimizer.state_dtype=int8"}}) {
    SCOPED_TRACE(way[0]);
    ExpectExit(0, Train(kSkip + way + Sets{"run.overwrite=true", "train.steps=22"}));
    EXPECT_TRUE(Rows().at(kBad).contains("diverged"));
    EXPECT_EQ(Rows().at(kBad).at("skipped").get<int>(),
              Rows().at(kBad - 1).at("skipped").get<int>() + 1);
    EXPECT_FALSE(Rows().at(kBad + 1).contains("diverged"));
  }
}

TEST_F(DivergenceCommand, TooManySkippedStepsInARowEndTheRun) {
  WriteData("text", kBad, 60);
  ExpectExit(1, Train(kSkip + Sets{"divergence.max_skips=3"}),
             {"step 22: ", "3 in a row (divergence.max_skips); stopped"});
}

// Weights that have blown up stay so, and all later steps are skipped.
TEST_F(DivergenceCommand, NumbersThatAreNoneAreSkippedToo) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const Outcome outcome = ExpectExit(
        1,
        Train(kSkip + Sets{"optimizer.name=sgd", "optimizer.lr=1000", "optimizer.clip_grad_norm=0",
                           "divergence.max_skips=4", "divergence.spike=0", "run.overwrite=true",
                           std::string("amp.dtype=") + dtype}));
    EXPECT_THAT(outcome.out, HasSubstr("not finite"));
    EXPECT_THAT(outcome.out, HasSubstr("; its update was skipped"));
    EXPECT_THAT(outcome.err, HasSubstr("4 in a row (divergence.max_skips)"));
  }
}

TEST_F(DivergenceCommand, RollsBackBehindTheBatch) {
  for (const char* async : {"save.async=false", "save.async=true"}) {
    const Outcome outcome = ExpectExit(0, Train(kRollback + Sets{async, "run.overwrite=true"}));
    // The bad step began from the snapshot after 20 steps, which is not known to be good.
    const std::string told =
        "back to the snapshot after 15 steps and on with other data, the "
        "learning rate now times 0.5 (rollback 1 of 3)";
    EXPECT_THAT(outcome.out, HasSubstr(told));
    const std::vector<json> rows = Rows();
    ASSERT_EQ(rows.size(), 29u);
    for (int i = 0; i < 29; ++i) {
      if (i == 15) {
        EXPECT_EQ(rows[i].at("rollback"), 1);
        EXPECT_THAT(rows[i].at("diverged").get<std::string>(), HasSubstr(told));
        continue;
      }
      EXPECT_EQ(rows[i].at("step"), i < 15 ? i : i - 1);
      EXPECT_EQ(rows[i].at("lr"), i < 15 ? 0.01 : 0.005);
      EXPECT_FALSE(rows[i].contains("diverged"));
    }
    EXPECT_THAT(Snapshots(), ElementsAre("step-000000025", "step-000000028"));
    const std::string table = ReadFile(run_ + "/metrics.csv");
    EXPECT_EQ(std::ranges::count(table, '\n'), 30);
    EXPECT_THAT(ReadFile(run_ + "/report.html"), HasSubstr("rollback 1 of 3"));
  }
  // It reads the batches after the bad one: the same run from there, at that rate.
  const std::vector<double> first = [&] {
    std::vector<double> losses;
    for (const json& row : Rows()) {
      if (row.contains("loss")) losses.push_back(row.at("loss"));
    }
    return losses;
  }();
  const std::string text = ReadFile(folder_ / "text");
  folder_.Write("text", text.substr(0, 15 * kTokens) + text.substr((kBad + 1) * kTokens));
  ExpectExit(0, Train({"train.stop_after=15", "run.overwrite=true"}));
  ExpectExit(0, Resume({"optimizer.lr=0.005"}));
  EXPECT_EQ(Losses(), first);
}

TEST_F(DivergenceCommand, TooManyRollbacksEndTheRun) {
  WriteData("text", kBad, 60);
  ExpectExit(1, Train(kRollback + Sets{"divergence.max_rollbacks=2", "divergence.spike=3"}),
             {"stopped after 2 rollbacks (divergence.max_rollbacks)"});
  int rollbacks = 0;
  for (const json& row : Rows()) {
    if (!row.contains("rollback")) continue;
    EXPECT_EQ(row.at("rollback"), ++rollbacks);
  }
  EXPECT_EQ(rollbacks, 2);
}

// The weights break in step 12 and the loss shows it in step 13: the snapshot in between cannot be
// used.
TEST_F(DivergenceCommand, GoesBackToAStateThatIsKnownToBeGood) {
  const Sets sets = {Data("clean"), "save.every=1", "save.keep=3", "optimizer.name=sgd",
                     "optimizer.clip_grad_norm=0"};
  ExpectExit(0, Train(sets + Sets{"train.stop_after=12", "optimizer.lr=0.1"}));
  const Outcome outcome = ExpectExit(
      0, Resume(sets + kRollback + Sets{"optimizer.lr=1000", "divergence.lr_factor=1e-4"}));
  ExpectText(outcome.out, {"step 13: loss ", "back to the snapshot after 12 steps"});
  EXPECT_LT(Rows().back().at("loss").get<double>(), Rows().front().at("loss").get<double>());
}

class DivergenceResumed : public DivergenceCommand,
                          public testing::WithParamInterface<std::tuple<Sets, int>> {};

TEST_P(DivergenceResumed, HasTheBitsOfARunThatWasNeverStopped) {
  const auto& [sets, stop] = GetParam();
  const std::vector<std::string> whole = NumbersOfWhole(sets);
  ExpectExit(0, Train(sets + Sets{"train.stop_after=" + std::to_string(stop)}));
  ExpectExit(0, Resume(sets));
  EXPECT_EQ(Numbers(), whole);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, DivergenceResumed,
    testing::Combine(testing::Values(kSkip, kSkip + Sets{"amp.dtype=fp16"}, kRollback,
                                     kRollback + Sets{"save.async=true", "amp.dtype=bf16"}),
                     testing::Values(9, 20, 21, 22)),
    [](const auto& info) { return std::to_string(info.index); });

// Evaluations are rolled back too: those of repeated steps are repeated.
TEST_F(DivergenceCommand, EvaluationsComeBackWithTheSnapshot) {
  const Sets sets =
      kRollback + Sets{"data.eval=" + folder_ / "clean", "train.eval_every=4", "save.best=true"};
  const std::vector<std::string> whole = NumbersOfWhole(sets);
  std::vector<int> evaluated;
  for (const std::string& row : whole) {
    const json parsed = json::parse(row);
    if (parsed.contains("eval_loss")) evaluated.push_back(parsed.at("step"));
  }
  EXPECT_THAT(evaluated, ElementsAre(0, 4, 8, 12, 16, 20, 24, 28));
  EXPECT_EQ(
      std::ranges::count_if(
          whole, [](const std::string& row) { return json::parse(row).contains("rollback"); }),
      1);
  ExpectExit(0, Train(sets + Sets{"train.stop_after=20"}));
  ExpectExit(0, Resume(sets));
  EXPECT_EQ(Numbers(), whole);
}

// Before its own first snapshot, a branch goes back to the snapshot that it began from.
TEST_F(DivergenceCommand, ABranchGoesBackToWhereItBegan) {
  ExpectExit(0, Train({"train.stop_after=18"}));
  const std::string from = run_ + "/snapshots/step-000000018";
  run_ = folder_ / "branch";
  const Outcome outcome =
      ExpectExit(0, Train(kRollback + Sets{"save.every=100"}, {"--resume", from}));
  EXPECT_THAT(outcome.out, HasSubstr("back to the snapshot after 18 steps"));
  EXPECT_EQ(Rows().front().at("rollback"), 1);
  EXPECT_EQ(Rows().back().at("step"), 27);
}

// After an error the run can continue with another action: counters of skipped steps don't prevent
// it.
TEST_F(DivergenceCommand, AStoppedRunGoesOnWithSkipping) {
  ExpectExit(1, Train());
  ExpectExit(0, Resume(kSkip));
  EXPECT_EQ(Rows().back().at("skipped"), 1);
  ExpectExit(0, Resume({"train.steps=30"}));
}

TEST_F(DivergenceCommand, RollbacksNeedSnapshots) {
  ExpectExit(2, Train(kRollback + Sets{"save.every=0"}),
             {"divergence.action: rollback needs snapshots to go back to; set "
              "save.every"});
  ExpectExit(1, Train(kRollback + Sets{"save.every=25"}),
             {"there is no snapshot yet to go back to"});
}

}  // namespace
}  // namespace plimsoll
