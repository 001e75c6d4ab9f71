// `plimsoll runs`: the list's contents for each run, among folders that are no runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class RunsCommand : public testing::Test {
 protected:
  RunsCommand() {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 8, vocab: 64}\n"
              "data: {synthetic: true}\n"
              "train: {steps: 4, micro_batch: 2, eval_every: 2, threads: 1}\n"
              "save: {model: false, every: 2}\n"
              "memory: {calibrate: false}\n");
  }

  std::vector<std::string> Arguments(const std::string& run,
                                     const std::vector<std::string>& sets) const {
    return WithSets({"train", yaml_, "--set", "run.dir=" + runs_ + "/" + run}, sets);
  }
  // The runs by the end of their paths.
  std::map<std::string, json> List() const {
    const Outcome outcome = ExpectExit(0, RunPlimsoll({"runs", runs_, "--json"}));
    std::map<std::string, json> runs;
    for (const json& run : json::parse(outcome.out)) {
      const std::string path = run.at("path");
      EXPECT_TRUE(path.starts_with(runs_ + "/")) << path;
      runs[path.substr(runs_.size() + 1)] = run;
    }
    return runs;
  }
  void AwaitFile(const std::string& file) const {
    for (int i = 0; i < 3000 && !fs::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(fs::exists(file)) << folder_.Read("err");
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string runs_ = folder_ / "all";
};

TEST_F(RunsCommand, ListsThemAsTheyStand) {
  ASSERT_EQ(RunPlimsoll(Arguments("done", {"run.name=A name", "run.tags=[small, \"é\"]",
                                           "run.notes=for a test"}))
                .exit_code,
            0);
  ASSERT_EQ(
      RunPlimsoll(Arguments("study/rows/failed", {"optimizer.name=sgd", "optimizer.lr=1000",
                                                  "train.steps=500", "optimizer.clip_grad_norm=0"}))
          .exit_code,
      1);
  // Folders that are no run, or are broken.
  fs::create_directories(runs_ + "/empty");
  fs::create_directories(runs_ + "/broken/metrics.jsonl");
  folder_.Write("all/broken/config.yaml", "[");
  fs::create_directories(runs_ + "/old");
  folder_.Write("all/old/config.yaml", "key: of another version\n");
  folder_.Write("all/old/metrics.jsonl",
                "{\"step\":6,\"loss\":2.5}\nnot a row\n{\"step\":7,\"eval_loss\":2.25}\n{\"step\"");
  folder_.Write("all/old/run.json", "{}");
  fs::create_directory_symlink(runs_, runs_ + "/loop");

  const pid_t child =
      StartPlimsoll(Arguments("long", {"train.steps=1000000", "save.on_exit=false", "save.keep=0"}),
                    folder_.path());
  AwaitFile(runs_ + "/long/snapshots/step-000000002");
  EXPECT_EQ(List().at("long").at("state"), "running");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);

  const std::map<std::string, json> runs = List();
  EXPECT_EQ(runs.at("long").at("state"), "stopped");
  EXPECT_EQ(runs.at("long").at("of_steps"), 1000000);
  const json& done = runs.at("done");
  EXPECT_EQ(done.at("state"), "done");
  EXPECT_EQ(done.at("name"), "A name");
  EXPECT_EQ(done.at("tags"), json({"small", "é"}));
  EXPECT_EQ(done.at("notes"), "for a test");
  EXPECT_EQ(done.at("steps"), 4);
  EXPECT_EQ(done.at("of_steps"), 4);
  const json summary = json::parse(ReadFile(runs_ + "/done/summary.json"));
  EXPECT_EQ(done.at("loss"), summary.at("loss"));
  EXPECT_EQ(done.at("best_eval_loss"), summary.at("best_eval_loss"));
  EXPECT_EQ(done.at("memory_bytes"), summary.at("arena_bytes"));
  EXPECT_GT(done.at("tokens_per_s"), 0);
  EXPECT_EQ(summary.at("name"), "A name");
  EXPECT_EQ(summary.at("tags"), done.at("tags"));
  const json& failed = runs.at("study/rows/failed");
  EXPECT_EQ(failed.at("state"), "failed");
  EXPECT_THAT(failed.at("reason").get<std::string>(), HasSubstr("not finite"));
  const json& old = runs.at("old");
  EXPECT_EQ(old.at("state"), "stopped");
  EXPECT_EQ(old.at("steps"), 7);
  EXPECT_EQ(old.at("best_eval_loss"), 2.25);
  EXPECT_FALSE(runs.contains("empty"));

  const Outcome table = ExpectExit(0, RunPlimsoll({"runs", runs_}));
  for (const char* part : {"held out", "tokens/s", "A name", "small, é", "4/4", "failed"}) {
    EXPECT_THAT(table.out, HasSubstr(part));
  }
  // The newest first.
  EXPECT_LT(table.out.find("/all/long"), table.out.find("/all/done"));
  ExpectExit(2, RunPlimsoll({"runs", folder_ / "nowhere"}));
  // A single run directory.
  EXPECT_THAT(RunPlimsoll({"runs", runs_ + "/done"}).out, HasSubstr("A name"));
}

}  // namespace
}  // namespace plimsoll
