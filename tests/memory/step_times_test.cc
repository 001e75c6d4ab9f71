// Built-in rates predict the steps that were measured on an H200, by its own kernels
// (h200_steps.json) and by those of other GPUs (portable_steps.json). bench/rates.py writes both.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "memory/h200_rates.h"
#include "tests/trainer/config/config_files.h"
#include "trainer/plan/load_planned.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

json MeasuredSteps(const std::string& name) {
  std::ifstream file("tests/memory/" + name);
  return json::parse(file)["steps"];
}

// The step of a run file on an H200, as `plimsoll plan` has it.
struct PlannedStep {
  PlannedStep(const std::string& file, const std::vector<std::string>& sets) {
    PlanCommand command;
    command.file = file;
    command.sets = sets;
    command.device = "h200";
    const config::RunConfig config = LoadPlanned(command, {}, 1).config;
    const auto model = ModelFrom(config);
    const ResolvedRun resolved = ResolveRun(config, *model);
    compiled = Compile(*model, resolved.options);
    milliseconds = 1e3 * PredictSeconds(compiled, BuiltInCost(resolved.config));
  }

  CompiledStep compiled;
  double milliseconds = 0;
};

void ExpectPredicted(const std::string& config, const json& steps,
                     const std::vector<std::string>& sets) {
  const auto step =
      std::ranges::find_if(steps, [&](const json& s) { return s["config"] == config; });
  ASSERT_NE(step, steps.end()) << "no step of it was measured";
  const PlannedStep planned(config, sets);
  const double measured = (*step)["measured_ms"];
  EXPECT_NEAR(planned.milliseconds / measured, 1, 0.05)
      << planned.milliseconds << " ms predicted, " << measured << " ms measured";
  std::set<std::string> without;
  for (const graph::Program* program : StepProgramsOf(planned.compiled)) {
    for (const graph::Node& node : program->nodes()) {
      if (node.op->view || node.op->transfer != graph::Transfer::kNone) continue;
      const memory::RateKind kind = memory::RateKindOf(program->CallOf(node).get());
      if (memory::FindRate(memory::H200Rates(), kind, node.op->cost_class) != nullptr) continue;
      without.insert(fmt::format("{} {} {}", kind.op, kind.numbers, kind.form));
    }
  }
  EXPECT_THAT(without, testing::IsEmpty());
}

class MeasuredStep : public testing::TestWithParam<std::string> {};

TEST_P(MeasuredStep, IsPredicted) {
  ExpectPredicted(GetParam(), MeasuredSteps("h200_steps.json"), {});
}

class PortableStep : public testing::TestWithParam<std::string> {};

TEST_P(PortableStep, IsPredicted) {
  ExpectPredicted(GetParam(), MeasuredSteps("portable_steps.json"), {"debug.act_as=8.0"});
}

std::vector<std::string> BenchConfigs() {
  std::vector<std::string> files = config::ConfigFiles();
  std::erase_if(files, [](const auto& file) { return !file.starts_with("configs/bench/"); });
  return files;
}

INSTANTIATE_TEST_SUITE_P(Configs, MeasuredStep, testing::ValuesIn(BenchConfigs()),
                         [](const auto& info) { return config::TestName(info.param); });

std::vector<std::string> PortableConfigs() {
  std::vector<std::string> files;
  for (const json& step : MeasuredSteps("portable_steps.json")) files.push_back(step["config"]);
  return files;
}

INSTANTIATE_TEST_SUITE_P(Configs, PortableStep, testing::ValuesIn(PortableConfigs()),
                         [](const auto& info) { return config::TestName(info.param); });

}  // namespace
}  // namespace plimsoll::trainer
