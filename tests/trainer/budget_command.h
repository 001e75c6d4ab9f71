// What tests of `plimsoll plan` and `plimsoll train` within a budget share: a small run file, the
// command's answers, and its errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {

inline constexpr const char* kBudgetRun =
    "model: {family: gpt2, layers: 4, width: 32, heads: 2, vocab: 96, sequence: 32}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 2, micro_batch: 4, threads: 1, eval_every: 0}\n"
    "memory: {calibrate: false}\n";

class BudgetCommand : public testing::Test {
 protected:
  Outcome Plan(std::vector<std::string> arguments, const std::string& yaml = kBudgetRun) {
    arguments.insert(arguments.begin(), {"plan", folder_.Write("run.yaml", yaml)});
    return RunPlimsoll(arguments);
  }
  nlohmann::json PlanJson(std::vector<std::string> arguments,
                          const std::string& yaml = kBudgetRun) {
    arguments.push_back("--json");
    const Outcome outcome = ExpectExit(0, Plan(std::move(arguments), yaml));
    return nlohmann::json::parse(outcome.out);
  }
  // The same without what the file and the command said to get it.
  nlohmann::json PlanMade(std::vector<std::string> arguments) {
    nlohmann::json plan = PlanJson(std::move(arguments));
    for (const char* said : {"config", "given"}) plan.erase(said);
    return plan;
  }
  // Expects one line with these parts, and this exit code. On a slow machine a progress line may
  // precede.
  static void ExpectError(const Outcome& outcome, int code, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.out << outcome.err;
    const size_t said = outcome.err.rfind("…\n");
    const std::string error =
        said == std::string::npos ? outcome.err : outcome.err.substr(said + 4);
    EXPECT_EQ(std::ranges::count(error, '\n'), 1) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(error, testing::HasSubstr(part));
  }
  // The first lines of the plan, up to what its passes did, each unwrapped.
  std::string Answer(const std::vector<std::string>& arguments,
                     const std::string& yaml = kBudgetRun) {
    const Outcome outcome = ExpectExit(0, Plan(arguments, yaml));
    return Unwrapped(outcome.out);
  }
  static std::string Unwrapped(const std::string& plan) {
    const std::string answer = plan.substr(0, plan.find("\n\n") + 1);
    return std::regex_replace(answer, std::regex("\n  "), " ");
  }
  // The arenas of the smallest and of the fastest plan.
  std::pair<int64_t, int64_t> Range() {
    const nlohmann::json front = PlanJson({"--sweep", "2"})["front"];
    return {front.back()["arena_bytes"], front.front()["arena_bytes"]};
  }

  const TempFolder folder_;
};

}  // namespace plimsoll
