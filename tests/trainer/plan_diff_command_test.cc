// `plimsoll plan NEW --diff OLD`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainer/budget_command.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

class PlanDiff : public BudgetCommand {
 protected:
  // The same run in another file.
  std::string Old(const std::string& yaml = kBudgetRun) { return folder_.Write("old.yaml", yaml); }
  // Saves what `plan --json` prints.
  std::string Saved(std::vector<std::string> arguments = {}) {
    return folder_.Write("saved.json", PlanJson(std::move(arguments)).dump());
  }
  static std::string With(std::string yaml, const std::string& line) { return yaml + line + "\n"; }
};

// The figures are those of the two plans, and the key that was set is the reason.
TEST_F(PlanDiff, ComparesTwoRunFiles) {
  const std::string block = With(kBudgetRun, "checkpointing: {policy: block}");
  const json before = PlanJson({}), after = PlanJson({}, block);
  const json found = PlanJson({"--diff", Old()}, block);
  EXPECT_EQ(found["arena_bytes"]["old"], before["arena_bytes"]);
  EXPECT_EQ(found["arena_bytes"]["new"], after["arena_bytes"]);
  EXPECT_EQ(found["predicted_step_ms"]["old"], before["predicted_step_ms"]);
  EXPECT_EQ(found["predicted_step_ms"]["new"], after["predicted_step_ms"]);
  EXPECT_EQ(found["bytes_by_role"]["activation"]["new"], after["bytes_by_role"]["activation"]);
  EXPECT_EQ(found["because"], "checkpointing.policy: none → block");
  EXPECT_THAT(found["not_compared"], IsEmpty());
  EXPECT_EQ(found["decisions"]["block.*.norm_1"]["old"], nullptr);
  EXPECT_EQ(found["decisions"]["block.*.norm_1"]["new"], "recompute 0-3");

  const std::string out = Plan({"--diff", Old()}, block).out;
  EXPECT_THAT(out, StartsWith("arena "));
  EXPECT_THAT(out, HasSubstr("\nbecause checkpointing.policy: none → block\n"));
  EXPECT_THAT(out, HasSubstr("  recompute (train): changed nothing → "));
}

// --set changes the run file alone, so that one file is enough to ask what a key does.
TEST_F(PlanDiff, SetsChangeTheNewPlanAlone) {
  const std::string run = Old();
  const json found = PlanJson({"--diff", run, "--set", "train.micro_batch=8"});
  EXPECT_EQ(found["because"], "train.micro_batch: 4 → 8");
  EXPECT_LT(found["arena_bytes"]["old"], found["arena_bytes"]["new"]);
  EXPECT_THAT(Plan({"--diff", run, "--set", "train.micro_batch=8"}).out,
              HasSubstr("train.micro_batch=8"));
  // --device is for both.
  const json gpu = PlanJson({"--diff", run, "--device", "h200"});
  EXPECT_EQ(gpu["changed"], false);
  EXPECT_EQ(gpu["arena_bytes"]["old"], PlanJson({"--device", "h200"})["arena_bytes"]);
}

TEST_F(PlanDiff, ASavedPlanIsTheSame) {
  const Outcome same = ExpectExit(0, Plan({"--diff", Saved(), "--fail-above", "0%"}));
  EXPECT_THAT(same.out,
              MatchesRegex("nothing changes from .*saved.json to .*run.yaml: arena [^\n]*\n"));
  EXPECT_EQ(PlanJson({"--diff", Saved(), "--set", "amp.dtype=bf16"})["because"],
            "amp.dtype: fp32 → bf16");
}

// What a run leaves is a plan of its file.
TEST_F(PlanDiff, AcceptsWhatARunLeaves) {
  const std::string dir = folder_ / "run";
  const std::string yaml = folder_.Write("trained.yaml", kBudgetRun);
  ExpectExit(0, RunPlimsoll({"train", yaml, "--set", "run.dir=" + dir}));
  const json plan = PlanJson({"--diff", dir + "/plan.json"});
  EXPECT_EQ(plan["changed"], false);
  EXPECT_THAT(plan["not_compared"], IsEmpty());
  EXPECT_EQ(PlanJson({"--diff", dir})["changed"], false);
}

// Of a version that saved less.
TEST_F(PlanDiff, NamesWhatASavedPlanLacks) {
  json old = PlanJson({});
  for (const char* member : {"passes", "decisions", "config", "given", "version"})
    old.erase(member);
  old["of_another_version"] = 1;
  const std::string file = folder_.Write("older.json", old.dump());
  EXPECT_THAT(PlanJson({"--diff", file})["not_compared"],
              ElementsAre("passes", "decisions", "config", "version"));
  EXPECT_THAT(Plan({"--diff", file}).out,
              HasSubstr("older.json: passes, decisions, config, version\n"));
  old.erase("predicted_step_ms");
  ExpectError(Plan({"--diff", folder_.Write("older.json", old.dump()), "--fail-above", "5%"}), 2,
              {"older.json: has no predicted_step_ms, which --fail-above compares"});
}

// The answer is the same; a line says which figure grew, and the exit code is 1.
TEST_F(PlanDiff, FailsAboveAGrowth) {
  const std::vector<std::string> larger = {"--diff", Saved(), "--set", "model.sequence=40"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), larger.begin(), larger.end());
    return more;
  };
  const Outcome asked = ExpectExit(0, Plan(larger));
  const Outcome failed = Plan(with({"--fail-above", "1%"}));
  ExpectError(failed, 1, {"above --fail-above 1%: arena ", "; predicted step "});
  EXPECT_EQ(failed.out, asked.out);
  ExpectExit(0, Plan(with({"--fail-above", "1000 %"})));
  const Outcome answer = Plan(with({"--fail-above", "1%", "--json"}));
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_EQ(json::parse(answer.out)["above"].size(), 2u);
  // Less is no growth.
  ExpectExit(0, Plan({"--diff", Saved(), "--set", "model.sequence=16", "--fail-above", "0%"}));
}

TEST_F(PlanDiff, RefusesWhatIsNoShare) {
  for (const char* share : {"1", "-1%", "%", "nan%", "inf%", "1%%", "1 percent"}) {
    ExpectError(Plan({"--diff", Old(), std::string("--fail-above=") + share}), 2,
                {"--fail-above: " + std::string(share) + " is no allowed growth"});
  }
  const Outcome alone = Plan({"--fail-above", "1%"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--diff"));
}

TEST_F(PlanDiff, RefusesOtherQuestions) {
  for (const std::vector<std::string>& question :
       std::vector<std::vector<std::string>>{{"--sweep", "3"},
                                             {"--max", "train.micro_batch"},
                                             {"--ranks", "2"},
                                             {"--parameters"},
                                             {"--html", folder_ / "plan.html"}}) {
    std::vector<std::string> arguments = {"--diff", Old()};
    arguments.insert(arguments.end(), question.begin(), question.end());
    ExpectError(Plan(arguments), 2, {"--diff compares two plans, and " + question[0]});
  }
}

TEST_F(PlanDiff, RefusesWhatIsNoPlan) {
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    SCOPED_TRACE(text);
    ExpectError(Plan({"--diff", folder_.Write("old", text)}), 2, parts);
  };
  refused(PlanJson({"--sweep", "2"}).dump(),
          {"old:1: is neither a run file nor a plan", "--sweep"});
  refused("[1]", {"old:1: ", "it has no arena_bytes"});
  refused("trian: {steps: 2}\n", {"old:1: trian: unknown key"});
  refused("{\n\"arena_bytes\": 1,\n", {"old: not valid JSON", "line 3"});
  refused(R"({"arena_bytes": "1"})", {"old: arena_bytes: expected an integer"});
  ExpectError(Plan({"--diff", folder_ / "none.json"}), 2, {"none.json: no such file"});
}

// An answer to a budget is compared like any other plan, and names what was decided.
TEST_F(PlanDiff, ComparesWhatABudgetChooses) {
  const auto [least, most] = Range();
  const std::string budget = std::to_string((least + most) / 2) + "B";
  const json found = PlanJson({"--diff", Old(), "--budget", budget});
  EXPECT_EQ(found["because"].get<std::string>().find("memory.budget: not set → "), 0u);
  EXPECT_LT(found["arena_bytes"]["new"], found["arena_bytes"]["old"]);
  EXPECT_THAT(found["decisions"], Not(IsEmpty()));
}

// A plan too large for its GPU is compared, and the exit code stays that of `plan`.
TEST_F(PlanDiff, SaysThatTheNewPlanIsTooLarge) {
  const std::vector<std::string> arguments = {
      "--diff", Old(), "--device", "3080", "--set", "model.width=4096", "--set", "model.layers=24"};
  const Outcome outcome = Plan(arguments);
  ExpectError(outcome, 3, {"run.yaml", "doesn't fit its GPU"});
  EXPECT_THAT(outcome.out, StartsWith("arena "));
}

}  // namespace
}  // namespace plimsoll
