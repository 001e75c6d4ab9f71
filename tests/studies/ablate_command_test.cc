// `plimsoll ablate` and `plimsoll report` as users run them: real studies of a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/folder_lock.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class AblateCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("run.yaml",
                  "model: {family: gpt2, layers: 2, width: 32, heads: 2, vocab: 64, sequence: 16}\n"
                  "data: {synthetic: true}\n"
                  "train: {steps: 2000, micro_batch: 2, threads: 1}\n"
                  "schedule: {warmup: 100}\n"
                  "memory: {calibrate: false}\n");
  }

  std::string Study(const std::string& text) {
    return folder_.Write("study.yaml",
                         "base: run.yaml\ndir: " + dir_ + "\n" +
                             (text.find("measure:") == text.npos
                                  ? "measure: {warmup: 1, steps: 4, repeat_unsteady: false}\n"
                                  : "") +
                             text);
  }

  Outcome Ablate(const std::string& text, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {"ablate", Study(text)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return RunPlimsoll(arguments);
  }

  // A study that can be made.
  Outcome Make(const std::string& text) {
    const Outcome outcome = Ablate(text);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    return outcome;
  }

  void ExpectRefused(const std::string& text, std::initializer_list<const char*> parts,
                     const std::vector<std::string>& flags = {}) {
    const Outcome outcome = Ablate(text, flags);
    EXPECT_EQ(outcome.exit_code, 2);
    for (const char* part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  // Expects each row to have that status.
  void ExpectStatus(const std::map<std::string, std::string>& of_rows) {
    const auto rows = Rows();
    for (const auto& [row, status] : of_rows) EXPECT_EQ(rows.at(row).at("status"), status) << row;
  }

  // The rows of study.json by name.
  std::map<std::string, json> Rows() {
    std::map<std::string, json> rows;
    const json study = StudyJson();
    for (const json& row : study.at("rows")) {
      rows[row.at("name")] = row;
    }
    return rows;
  }

  const TempFolder folder_;
  json StudyJson() { return json::parse(ReadFile(dir_ + "/study.json")); }

  const std::string dir_ = folder_ / "study";
};

// Both blocks of the model are ends, which stay in 16 bits.
TEST_F(AblateCommand, NotesWhatHasNoEffect) {
  const Outcome outcome = Make(
      "variants:\n"
      "  bf16: {amp.dtype: bf16}\n"
      "  fp8: {amp: {dtype: bf16, fp8: {recipe: current}}}\n"
      "  fp8, all blocks: {amp: {dtype: bf16, fp8: {recipe: current, skip_ends: 0}}}\n");
  const auto rows = Rows();
  ExpectStatus({{"bf16", "done"}, {"fp8", "done"}, {"fp8, all blocks", "done"}});
  const std::string note = "amp.fp8.recipe: has no effect: no linear layer has 8-bit products";
  EXPECT_THAT(rows.at("fp8").at("note").get<std::string>(), HasSubstr(note));
  EXPECT_THAT(outcome.out, HasSubstr("\nfp8: " + note));
  for (const char* name : {"bf16", "fp8, all blocks"}) {
    EXPECT_FALSE(rows.at(name).contains("note")) << name;
  }
}

TEST_F(AblateCommand, ComparesWhatWorksAndSaysWhyTheRestDoesNot) {
  const Outcome outcome = Make(
      "title: Tiny\n"
      "variants:\n"
      "  base: {}\n"
      "  block: {checkpointing.policy: block}\n"
      "  offload: {checkpointing.offload: [\"*\"]}\n"
      "  caching: {memory.allocator: caching}\n"
      "  bf16: {amp.dtype: bf16}\n"
      "  tight: {memory.budget: 10KiB}\n"
      "  ample: {memory.budget: 1GiB}\n"
      "  contradiction: {model.heads: 5}\n"
      "  crash: {optimizer: {name: sgd, lr: 1000, clip_grad_norm: 0}, schedule.warmup: 0,\n"
      "          schedule.name: constant}\n"
      "  other: {command: 'echo working; echo \"{\\\"step_ms\\\": [1, 2, 3], \\\"loss\\\": 5}\"'}\n"
      "  silent: {command: 'echo nothing'}\n"
      "  failing: {command: 'echo broken pipe >&2; exit 9'}\n"
      "repeats: 2\n");
  const auto rows = Rows();
  const json& base = rows.at("base");
  ExpectStatus({{"base", "done"},
                {"block", "done"},
                {"offload", "done"},
                {"caching", "done"},
                {"tight", "infeasible"},
                {"contradiction", "infeasible"},
                {"crash", "failed"}});
  EXPECT_EQ(base.at("base"), true);
  EXPECT_EQ(base.at("runs"), 2);
  for (const char* key : {"arena_bytes", "used_bytes", "activation_bytes", "parameter_bytes",
                          "optimizer_bytes", "step_ms", "step_ms_low", "step_ms_high",
                          "tokens_per_s", "loss", "eval_loss", "predicted_step_ms"}) {
    ASSERT_TRUE(base.at(key).is_number()) << key;
    EXPECT_GT(base.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(base.at("curve").at("loss").size(), 5u);
  for (const char* name : {"block", "offload", "caching"}) {
    EXPECT_EQ(rows.at(name).at("bits"), "= base") << name;
    EXPECT_EQ(rows.at(name).at("loss_difference"), 0) << name;
  }
  for (const char* name : {"base", "block", "offload", "bf16"}) {
    EXPECT_EQ(rows.at(name).at("used_bytes"), rows.at(name).at("arena_bytes")) << name;
    EXPECT_GT(rows.at(name).at("caching_replay_bytes"), 0) << name;
  }
  EXPECT_GT(rows.at("block").at("recompute_share"), 0);
  EXPECT_EQ(base.at("recompute_share"), 0);
  EXPECT_GT(rows.at("offload").at("offloaded_bytes"), 0);
  EXPECT_EQ(rows.at("bf16").at("bits"), "");
  EXPECT_NE(rows.at("bf16").at("loss"), base.at("loss"));
  EXPECT_THAT(rows.at("tight").at("note").get<std::string>(), HasSubstr("memory.budget: 10.0 KiB"));
  EXPECT_EQ(rows.at("caching").at("reserved_bytes"), base.at("caching_replay_bytes"));
  EXPECT_EQ(rows.at("ample").at("budget_bytes"), 1 << 30);
  EXPECT_EQ(rows.at("ample").at("arena_budget_bytes"), 1 << 30);
  EXPECT_TRUE(base.at("budget_bytes").is_null());
  EXPECT_THAT(rows.at("crash").at("note").get<std::string>(), HasSubstr("not finite"));
  EXPECT_EQ(rows.at("other").at("step_ms"), 2);
  EXPECT_EQ(rows.at("other").at("loss"), 5);
  EXPECT_THAT(rows.at("silent").at("note").get<std::string>(), HasSubstr("step_ms"));
  EXPECT_EQ(rows.at("failing").at("note"), "exit code 9: broken pipe");
  ExpectText(outcome.out, {"best so far", "left", "equal to the bit are: checked"});
  EXPECT_THAT(ReadFile(dir_ + "/report.html"), HasSubstr("Tiny"));
  EXPECT_THAT(ReadFile(dir_ + "/study.csv"), HasSubstr("\nblock,done,"));
  EXPECT_THAT(ReadFile(dir_ + "/study.tex"), HasSubstr("\nblock & done & "));
  EXPECT_THAT(ReadFile(dir_ + "/study.svg"), HasSubstr(">offload</text>"));
  const json laws = StudyJson().at("laws");
  for (const json& law : laws) {
    EXPECT_TRUE(law.at("holds") == true || law.at("must_hold") == false) << law.dump();
  }

  // The same runs, compared by hand.
  const std::string first = dir_ + "/runs/001-base.1", second = dir_ + "/runs/002-block.1";
  const Outcome report = ExpectExit(0, RunPlimsoll({"report", first, second, "--warmup", "1",
                                                    "--json", "--html", folder_ / "page.html"}));
  const json compared = json::parse(report.out);
  EXPECT_EQ(compared.at("rows").at(1).at("bits"), "= " + first);
  EXPECT_EQ(compared.at("rows").at(1).at("eval_loss"), rows.at("block").at("eval_loss"));
  EXPECT_THAT(folder_.Read("page.html"), HasSubstr("<html"));
  ExpectExit(2, RunPlimsoll({"report", folder_.path()}));

  // A choice of columns, in the order asked for.
  const Outcome few =
      ExpectExit(0, RunPlimsoll({"report", first, second, "--columns", "arena,name", "--csv",
                                 folder_ / "few.csv", "--html", folder_ / "few.html"}));
  EXPECT_EQ(few.out.find("arena  row"), few.out.find_first_not_of(' ')) << few.out;
  EXPECT_THAT(folder_.Read("few.csv"), testing::StartsWith("arena_bytes,name\n"));
  EXPECT_THAT(folder_.Read("few.html"),
              HasSubstr(R"("columns":[{"key":"arena_bytes","label":"arena","unit":"bytes"},)"));
  ExpectExit(2, RunPlimsoll({"report", first, "--columns", "name,time"}),
             {"--columns: \"time\" is no column; there are name, status,"});
  ExpectExit(2, RunPlimsoll({"ablate", folder_ / "study.yaml", "--columns", "time"}));

  // A run that was killed after three steps, and one killed before its first step, next to them.
  const std::string killed = folder_ / "killed", begun = folder_ / "begun";
  std::filesystem::copy(second, killed);
  std::filesystem::remove(killed + "/summary.json");
  std::string lines = ReadFile(killed + "/metrics.jsonl");
  size_t end = 0;
  for (int i = 0; i < 4; ++i) end = lines.find('\n', end) + 1;  // an evaluation, and three steps
  WriteFile(killed + "/metrics.jsonl", lines.substr(0, end) + "{\"step\": 3, \"lo");
  std::filesystem::create_directory(begun);
  std::filesystem::copy(second + "/config.yaml", begun + "/config.yaml");
  const FolderLock lock(begun, "trains there");
  const Outcome some =
      ExpectExit(0, RunPlimsoll({"report", killed, first, second, begun, "--json"}));
  const json unfinished = json::parse(some.out).at("rows");
  EXPECT_EQ(unfinished.at(0).at("status"), "unfinished");
  EXPECT_EQ(unfinished.at(0).at("note"), "stopped after 3 of 5 steps");
  EXPECT_EQ(unfinished.at(0).at("curve").at("loss").size(), 3u);
  EXPECT_EQ(unfinished.at(0).at("arena_bytes"), rows.at("block").at("arena_bytes"));
  EXPECT_EQ(unfinished.at(1).at("base"), true);
  EXPECT_EQ(unfinished.at(2).at("bits"), "= " + first);
  EXPECT_EQ(unfinished.at(3).at("note"),
            "0 of 5 steps so far; " + *LockHolder(begun) + " trains there");

  // One that had nothing left to do when it was resumed.
  const std::string ended = folder_ / "ended";
  std::filesystem::copy(second, ended);
  WriteFile(ended + "/metrics.jsonl", "");
  const Outcome none = ExpectExit(0, RunPlimsoll({"report", ended, first, "--json"}));
  const json of_none = json::parse(none.out).at("rows");
  EXPECT_EQ(of_none.at(0).at("status"), "done");
  EXPECT_EQ(of_none.at(0).at("note"), "made no steps");
  EXPECT_FALSE(of_none.at(0).contains("step_ms"));
  EXPECT_EQ(of_none.at(1).at("base"), true);
  const Outcome alone = ExpectExit(0, RunPlimsoll({"report", ended}));
  EXPECT_THAT(alone.out, HasSubstr(ended + ": made no steps"));
}

TEST_F(AblateCommand, AStudyWithoutAResultHasFailed) {
  const Outcome outcome = Ablate(
      "variants: {missing: {data: {synthetic: false, train: no/such.bin}},\n"
      "           negative: {command: 'echo \"{\\\"step_ms\\\": -1}\"'}}\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no row has a result; the first, missing, failed: "));
  ExpectStatus({{"missing", "failed"}, {"negative", "failed"}});
  EXPECT_THAT(Rows().at("missing").at("note").get<std::string>(), HasSubstr("no/such.bin"));
  EXPECT_THAT(outcome.out, HasSubstr("negative: failed: the command printed step_ms: -1; it must "
                                     "be a finite number above 0"));
}

TEST_F(AblateCommand, SeedsAreRunsOfARow) {
  const Outcome outcome = Make(
      "variants: {base: {}, block: {checkpointing.policy: block}, bf16: {amp.dtype: bf16},\n"
      "           other: {command: 'echo \"{\\\"step_ms\\\": 1, \\\"loss\\\": "
      "$PLIMSOLL_SEED}\"'}}\n"
      "axes: {train.seed: [1, 2, 3]}\n");
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 4u);
  for (const char* name : {"base", "block", "bf16", "other"}) {
    EXPECT_EQ(rows.at(name).at("runs"), 3) << name;
    EXPECT_EQ(rows.at(name).at("loss_runs"), 3) << name;
  }
  EXPECT_GT(rows.at("base").at("loss_deviation"), 0);
  EXPECT_EQ(rows.at("block").at("loss"), rows.at("base").at("loss"));
  EXPECT_EQ(rows.at("block").at("loss_difference"), 0);
  EXPECT_EQ(rows.at("block").at("loss_difference_deviation"), 0);
  EXPECT_EQ(rows.at("block").at("bits"), "= base");
  EXPECT_EQ(rows.at("bf16").at("loss_difference_runs"), 3);
  // The deviation of pairs' differences: much less than the deviation over seeds.
  EXPECT_LT(rows.at("bf16").at("loss_difference_deviation"),
            0.2 * rows.at("base").at("loss_deviation").get<double>());
  EXPECT_EQ(rows.at("other").at("loss"), 2);
  EXPECT_EQ(rows.at("other").at("loss_deviation"), 1);
  EXPECT_THAT(outcome.out, HasSubstr("(3)"));
}

TEST_F(AblateCommand, EqualLossesAreTrainedToTheEndOnce) {
  const std::string text =
      "variants: {block: {checkpointing.policy: block}, base: {}, bf16: {amp.dtype: bf16}}\n"
      "baseline: base\n"
      "measure: {warmup: 1, steps: 59, eval_every: 20, check_arena: false, repeat_unsteady: "
      "false}\n";
  const Outcome outcome = Make(text);
  const auto rows = Rows();
  EXPECT_THAT(outcome.out, HasSubstr("3 runs of 60 steps left to make (1 of them of fewer"));
  const auto steps = [&](const std::string& run) {
    return json::parse(ReadFile(dir_ + "/runs/" + run + "/summary.json")).at("steps");
  };
  EXPECT_EQ(steps("001-block.1"), 21);
  EXPECT_EQ(steps("002-base.1"), 60);
  EXPECT_EQ(steps("003-bf16.1"), 60);
  EXPECT_EQ(rows.at("block").at("bits"), "= base in 21 of 60 steps");
  for (const char* key : {"loss", "eval_loss", "best_eval_loss", "curve", "eval_curve"}) {
    EXPECT_EQ(rows.at("block").at(key), rows.at("base").at(key)) << key;
  }
  EXPECT_EQ(rows.at("base").at("eval_curve").at("step"), (std::vector<int>{0, 20, 40, 60}));
  EXPECT_THAT(StudyJson().at("facts").dump(), HasSubstr("21 of 60 steps"));

  // Different losses are still detected.
  const std::string path = dir_ + "/runs/001-block.1/metrics.jsonl";
  std::string metrics = ReadFile(path);
  const size_t at = metrics.rfind("\"loss\":") + 7;
  metrics.replace(at, metrics.find(',', at) - at, "9");
  WriteFile(path, metrics);
  ExpectExit(1, Ablate(text));
  EXPECT_EQ(Rows().at("block").at("bits"), "DIFFER from base");
}

TEST_F(AblateCommand, RunsAgainWhatVaries) {
  const std::string calls = folder_ / "calls";
  const Outcome outcome = Make(
      "measure: {warmup: 1, steps: 4}\n"
      "variants:\n"
      "  busy: {command: 'echo \"{\\\"step_ms\\\": [1, 2, 3]}\"'}\n"
      "  calm: {command: 'echo \"{\\\"step_ms\\\": [2, 2, 2.01]}\"'}\n"
      "  settles: {command: 'echo x >> " +
      calls + "; if test $(wc -l < " + calls +
      ") = 1; then echo \"{\\\"step_ms\\\": [1, 2, 3]}\"; else echo \"{\\\"step_ms\\\": [2, 2, "
      "2]}\"; fi'}\n");
  EXPECT_EQ(Rows().at("busy").at("runs"), 6);
  EXPECT_EQ(Rows().at("calm").at("runs"), 1);
  EXPECT_EQ(Rows().at("settles").at("runs"), 2);
  // The counter of runs grows, and says why.
  ExpectText(outcome.out, {"  busy: its times vary by 50.0 %, so that it runs again, 1 "
                           "of at most 5 times\n",
                           "runs again, 5 of at most 5 times\n",
                           "  settles: its times vary by 50.0 %, so that it runs again, 1"});
  EXPECT_THAT(outcome.out, Not(HasSubstr("  calm: its times")));
  EXPECT_THAT(StudyJson().at("warning").get<std::string>(),
              HasSubstr("Times are not to be trusted: steps of one and the same program vary by "
                        "more than 3 % (the range between their quartiles over the median) in 1 of "
                        "3 rows (busy)"));
  EXPECT_THAT(ReadFile(dir_ + "/report.html"), HasSubstr("not to be trusted"));
  EXPECT_THAT(outcome.out, HasSubstr("not to be trusted"));
}

// The budget solver times ops; its measurements must not change the predictions for other rows.
TEST_F(AblateCommand, PredictionsOfOneProgramAreTheSameInAllRows) {
  setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  const Outcome outcome = Make(
      "order: written\n"
      "set: {memory.calibrate: true}\n"
      "variants: {none: {checkpointing.policy: none},\n"
      "           auto: {checkpointing.policy: auto, memory.budget: 1GiB},\n"
      "           again: {checkpointing.policy: none, memory.budget: 2GiB}}\n");
  EXPECT_THAT(outcome.out, HasSubstr("measuring this machine for auto"));
  EXPECT_GT(Rows().at("none").at("predicted_step_ms"), 0);
  EXPECT_EQ(Rows().at("none").at("predicted_step_ms"), Rows().at("again").at("predicted_step_ms"));
}

TEST_F(AblateCommand, GoesOnWhereItWasStopped) {
  const std::string study = Study(
      "variants: {first: {}, second: {checkpointing.policy: block},\n"
      "           slow: {train.stop_after: 0}}\n");
  ExpectExit(2, RunPlimsoll({"ablate", study}));  // a study sets the number itself
  const std::string text =
      "order: written\n"
      "variants: {first: {}, wait: {command: 'sleep 60 & echo $! > " +
      folder_.path() + "/pid; test -e " + folder_.path() +
      "/go && echo \"{\\\"step_ms\\\": 1}\" || wait'},\n"
      "           last: {checkpointing.policy: block}}\n";
  const pid_t child = StartPlimsoll({"ablate", Study(text)}, folder_.path());
  // Until the second row waits.
  for (int i = 0; i < 600 && !std::filesystem::exists(folder_ / "pid"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_TRUE(std::filesystem::exists(folder_ / "pid")) << folder_.Read("err");
  // A second run of the study at the same time would overwrite it.
  EXPECT_THAT(Ablate(text).err, HasSubstr(" runs this study"));
  std::string sleeper;
  while (sleeper.empty()) sleeper = folder_.Read("pid");
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4) << folder_.Read("err");
  EXPECT_THAT(folder_.Read("err"), HasSubstr("start it again to continue"));
  // The process that the command had started is gone too.
  const pid_t started = std::stoi(sleeper);
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) {
    gone = kill(started, 0) != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(gone);
  ExpectStatus({{"first", "done"}, {"wait", "not run"}, {"last", "not run"}});

  const auto written = std::filesystem::last_write_time(dir_ + "/runs/001-first.1/metrics.jsonl");
  folder_.Write("go", "");
  const Outcome again = ExpectExit(0, Ablate(text));
  EXPECT_THAT(again.out, HasSubstr("2 runs of 5 steps left"));
  EXPECT_EQ(std::filesystem::last_write_time(dir_ + "/runs/001-first.1/metrics.jsonl"), written);
  EXPECT_EQ(Rows().at("wait").at("step_ms"), 1);
  EXPECT_EQ(Rows().at("last").at("bits"), "= first");
}

TEST_F(AblateCommand, FailuresAreRunAgainWhenAsked) {
  const std::string text =
      "variants: {base: {}, later: {command: 'cat " + folder_.path() + "/there'}}\n";
  ExpectExit(0, Ablate(text));
  EXPECT_EQ(Rows().at("later").at("status"), "failed");
  folder_.Write("there", "{\"step_ms\": 4}\n");
  EXPECT_THAT(Ablate(text).out, HasSubstr("0 runs of 5 steps left"));
  EXPECT_EQ(Rows().at("later").at("status"), "failed");
  EXPECT_THAT(Ablate(text, {"--retry-failed"}).out, HasSubstr("1 run of 5 steps left"));
  EXPECT_EQ(Rows().at("later").at("status"), "done");
}

TEST_F(AblateCommand, MarksWhatIsBroken) {
  Make(
      "variants:\n"
      "  base: {}\n"
      "  other seed: {train.seed: 2}\n"
      "  high: {command: 'echo \"{\\\"step_ms\\\": 1, \\\"loss\\\": 50}\"'}\n"
      "  slow: {command: 'sleep 60'}\n"
      "broken: {loss_above: 9, loss_difference: 0.5, seconds: 3}\n");
  ExpectStatus(
      {{"base", "done"}, {"other seed", "done"}, {"high", "broken"}, {"slow", "timed out"}});
  EXPECT_EQ(Rows().at("slow").at("note"), "took longer than 3 s (broken.seconds)");
}

TEST_F(AblateCommand, NeverWritesOverWhatIsThere) {
  ExpectExit(0, Ablate("variants: {base: {}}\n"));
  const std::string before = ReadFile(dir_ + "/study.json");
  ExpectRefused("variants: {base: {}, more: {amp.dtype: bf16}}\n", {"holds another study"});
  EXPECT_EQ(ReadFile(dir_ + "/study.json"), before);

  const std::string occupied = folder_ / "occupied";
  std::filesystem::create_directory(occupied);
  WriteFile(occupied + "/thesis.tex", "years of work");
  ExpectRefused("variants: {base: {}}\n", {"holds something else than a study"},
                {"--dir", occupied});
  EXPECT_EQ(folder_.Names("occupied"), (std::vector<std::string>{"thesis.tex"}));
}

TEST_F(AblateCommand, AsksBeforeManyRuns) {
  ExpectRefused(
      "axes: {train.seed: {from: 1, to: 200, step: 1}, train.micro_batch: {from: 1, to: 5, step: "
      "1}}\n"
      "repeats: 2\n",
      {"2000 runs, about ", "--yes"});
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(AblateCommand, ListsRowsWithoutRunningThem) {
  const Outcome outcome =
      ExpectExit(0, Ablate("axes: {amp.dtype: [fp32, bf16], parallel.data: [1, 2]}\n", {"--list"}));
  EXPECT_THAT(outcome.out,
              HasSubstr("dtype=bf16, data=2: amp.dtype=bf16 parallel.data=2  (2 ranks)"));
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(AblateCommand, MistakesAreToldBeforeAnythingRuns) {
  ExpectRefused("axes:\n  amp: {dtpye: [bf16]}\n", {"study.yaml:5: axes.amp.dtpye: unknown key"});
  ExpectRefused("variants: {one: {model.heads: 5}}\n", {"do not divide"});
  EXPECT_FALSE(std::filesystem::exists(dir_));
  ExpectExit(2, RunPlimsoll({"ablate"}));
  ExpectExit(2, RunPlimsoll({"ablate", folder_ / "none.yaml"}));
}

// Rows of several ranks use mpirun, called here as by tests/support/mpirun.sh.
TEST_F(AblateCommand, StartsRanks) {
  const TempFolder shared;
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                          {"OMPI_MCA_plm_rsh_agent", ""},
                                          {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                                          {"OMPI_MCA_btl_vader_backing_directory", shared.path()},
                                          {"TMPDIR", shared.path()}}) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  const Outcome outcome = Make(
      "measure: {warmup: 1, steps: 4, profile: true, repeat_unsteady: false}\n"
      "variants: {one: {}, two: {parallel.data: 2, train.micro_batch: 1},\n"
      "           block: {parallel.data: 2, train.micro_batch: 1, checkpointing.policy: block},\n"
      "           odd: {parallel.tensor: 2, parallel.data: 1, model.heads: 1}}\n");
  const auto rows = Rows();
  ExpectStatus({{"two", "done"}, {"odd", "infeasible"}});
  EXPECT_EQ(rows.at("two").at("ranks"), 2);
  EXPECT_NEAR(rows.at("two").at("loss"), rows.at("one").at("loss"), 1e-5 * 5);
  EXPECT_EQ(rows.at("block").at("bits"), "= two");
  EXPECT_GT(rows.at("two").at("collective_ms"), 0);
  // On the CPU, computation waits during collectives.
  EXPECT_EQ(rows.at("two").at("exposed_ms"), rows.at("two").at("collective_ms"));
  EXPECT_EQ(rows.at("one").at("collective_ms"), 0);
}

}  // namespace
}  // namespace plimsoll
