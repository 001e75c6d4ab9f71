// The layout of MLflow's file store, as mlflow 3.17 writes and reads it.
#include "reports/mlflow_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::reports {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class MlflowRunTest : public testing::Test {
 protected:
  MlflowFacts Facts() const {
    return {.experiment = "runs",
            .name = "wider: 2",
            .user = "ada",
            .files = "/data/run & co",
            .params = {{"train.steps", "6"}, {"data.train", "a.bin, b.bin"}},
            .tags = {{"seed 2", "true"}, {"mlflow.note.content", "does it \"pay\"?\nyes"}}};
  }
  std::string Of(const MlflowRun& run, const std::string& file) const {
    return ReadFile(folder_ + "/" + run.place() + "/" + file);
  }

  const TempFolder temp_;
  const std::string folder_ = temp_ / "new/mlruns";
};

TEST_F(MlflowRunTest, HasTheLayoutOfMlflow) {
  MlflowRun run(folder_, Facts());
  EXPECT_THAT(run.place(), MatchesRegex("[0-9]{18}/[0-9a-f]{32}"));
  EXPECT_FALSE(run.continues());
  const std::string experiment = run.place().substr(0, 18), id = run.place().substr(19);
  EXPECT_THAT(ReadFile(folder_ + "/" + experiment + "/meta.yaml"),
              MatchesRegex("artifact_location: \"file://.*/new/mlruns/" + experiment +
                           "\"\ncreation_time: [0-9]{13}\nexperiment_id: '" + experiment +
                           "'\nlast_update_time: [0-9]{13}\nlifecycle_stage: active\n"
                           "name: \"runs\"\n"));
  EXPECT_THAT(Of(run, "meta.yaml"),
              MatchesRegex("artifact_uri: \"file:///data/run%20%26%20co\"\nend_time: null\n"
                           "entry_point_name: ''\nexperiment_id: '" +
                           experiment + "'\nlifecycle_stage: active\nrun_id: \"" + id +
                           "\"\nrun_name: \"wider: 2\"\nsource_name: ''\nsource_type: 4\n"
                           "source_version: ''\nstart_time: [0-9]{13}\nstatus: 1\ntags: \\[\\]\n"
                           "user_id: \"ada\"\n"));
  EXPECT_EQ(Of(run, "params/train.steps"), "6");
  EXPECT_EQ(Of(run, "params/data.train"), "a.bin, b.bin");
  EXPECT_EQ(Of(run, "tags/seed 2"), "true");
  EXPECT_EQ(Of(run, "tags/mlflow.note.content"), "does it \"pay\"?\nyes");
  EXPECT_TRUE(fs::is_directory(folder_ + "/" + run.place() + "/artifacts"));
}

TEST_F(MlflowRunTest, AddsALineForEachNumber) {
  MlflowRun run(folder_, Facts());
  run.AddRow({{"step", 0}, {"loss", 2.5}, {"mfu", nullptr}, {"diverged", "text"}, {"skipped", 0}});
  run.AddRow({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  run.AddRow({{"step", 2}, {"eval_loss", 0.1}, {"eval_a/b→c", 1}});
  EXPECT_THAT(Of(run, "metrics/train/loss"), MatchesRegex("[0-9]{13} 2.5 0\n[0-9]{13} nan 1\n"));
  EXPECT_THAT(Of(run, "metrics/train/skipped"), MatchesRegex("[0-9]{13} 0 0\n"));
  EXPECT_THAT(Of(run, "metrics/eval/loss"), MatchesRegex("[0-9]{13} 0.1 2\n"));
  EXPECT_EQ(temp_.Names("new/mlruns/" + run.place() + "/metrics/train"),
            (std::vector<std::string>{"loss", "skipped"}));
  EXPECT_EQ(temp_.Names("new/mlruns/" + run.place() + "/metrics/eval"),
            (std::vector<std::string>{"a_b_c", "loss"}));
}

// A killed process leaves a line that was cut off, and steps beyond its snapshot.
TEST_F(MlflowRunTest, GoesOnWithTheSameRun) {
  std::string place;
  {
    MlflowRun run(folder_, Facts());
    place = run.place();
    for (int step = 0; step < 4; ++step) run.AddRow({{"step", step}, {"loss", step}});
    run.AddRow({{"step", 3}, {"eval_loss", 1}});
    run.SetStatus(MlflowRun::Status::kFailed, "an error");
    EXPECT_THAT(Of(run, "meta.yaml"), HasSubstr("\nstatus: 4\n"));
    EXPECT_THAT(Of(run, "meta.yaml"), Not(HasSubstr("end_time: null")));
    EXPECT_EQ(Of(run, "tags/plimsoll.reason"), "an error");
  }
  const std::string loss = folder_ + "/" + place + "/metrics/train/loss";
  WriteFile(loss, ReadFile(loss) + "1795800940300 9");

  MlflowFacts facts = Facts();
  facts.params[0].second = "12";
  MlflowRun run(folder_, facts, place);
  EXPECT_TRUE(run.continues());
  EXPECT_EQ(run.place(), place);
  run.Restart(2);
  run.AddRow({{"step", 2}, {"loss", 7}});
  EXPECT_THAT(Of(run, "metrics/train/loss"),
              MatchesRegex("[0-9]{13} 0 0\n[0-9]{13} 1 1\n[0-9]{13} 7 2\n"));
  EXPECT_FALSE(fs::exists(folder_ + "/" + place + "/metrics/eval/loss"));
  EXPECT_EQ(Of(run, "params/train.steps"), "12");
  EXPECT_EQ(Of(run, "tags/plimsoll.reason"), "");
  ExpectText(Of(run, "meta.yaml"), {"\nstatus: 1\n", "end_time: null\n"});
}

TEST_F(MlflowRunTest, WhoseFolderIsGoneBeginsAnew) {
  MlflowRun run(folder_, Facts(), "123/456");
  EXPECT_FALSE(run.continues());
  EXPECT_NE(run.place(), "123/456");
}

TEST_F(MlflowRunTest, JoinsTheExperimentOfItsName) {
  const MlflowRun first(folder_, Facts());
  EXPECT_EQ(MlflowRun(folder_, Facts()).place().substr(0, 18), first.place().substr(0, 18));
  MlflowFacts other = Facts();
  other.experiment = "it's: other";
  EXPECT_NE(MlflowRun(folder_, other).place().substr(0, 18), first.place().substr(0, 18));
  // One that MLflow made.
  other.experiment = "it's: mine";
  fs::create_directories(folder_ + "/77");
  WriteFile(folder_ + "/77/meta.yaml",
            "experiment_id: '77'\nlifecycle_stage: active\nname: 'it''s: mine'\n");
  EXPECT_THAT(MlflowRun(folder_, other).place(), MatchesRegex("77/[0-9a-f]{32}"));
  // One that MLflow deleted may come back.
  fs::create_directories(folder_ + "/.trash");
  const std::string id = first.place().substr(0, 18);
  fs::rename(folder_ + "/" + id, folder_ + "/.trash/" + id);
  EXPECT_NE(MlflowRun(folder_, Facts()).place().substr(0, 18), id);
}

TEST_F(MlflowRunTest, KeepsWhatMlflowWroteAboutIt) {
  MlflowRun run(folder_, Facts());
  const std::string meta = folder_ + "/" + run.place() + "/meta.yaml";
  WriteFile(meta,
            std::regex_replace(ReadFile(meta), std::regex("run_name: .*"), "run_name: renamed"));
  run.SetStatus(MlflowRun::Status::kFinished, "");
  ExpectText(ReadFile(meta), {"\nrun_name: renamed\n", "\nstatus: 3\n"});
}

TEST_F(MlflowRunTest, CutsWhatMlflowWouldRefuse) {
  MlflowFacts facts = Facts();
  facts.params = {{"long", std::string(5999, 'x') + "→" + std::string(10, 'y')}};
  EXPECT_EQ(Of(MlflowRun(folder_, facts), "params/long"), std::string(5999, 'x'));
}

TEST_F(MlflowRunTest, NamesAFolderThatCannotBeWritten) {
  temp_.Write("file", "");
  ExpectUserError([&] { MlflowRun(temp_ / "file/mlruns", Facts()); }, {"file/mlruns"});
}

}  // namespace
}  // namespace plimsoll::reports
