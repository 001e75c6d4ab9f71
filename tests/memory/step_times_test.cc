// Built-in rates predict the steps that were measured on an H200 (h200_steps.json, by
// bench/rates.py).
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

json MeasuredSteps() {
  std::ifstream file("tests/memory/h200_steps.json");
  return json::parse(file);
}

// The step of a run file on an H200, as `plimsoll plan` has it.
struct PlannedStep {
  explicit PlannedStep(const std::string& file) {
    PlanCommand command;
    command.file = file;
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

class MeasuredStep : public testing::TestWithParam<std::string> {};

TEST_P(MeasuredStep, IsPredicted) {
  const json steps = MeasuredSteps()["steps"];
  const auto step =
      std::ranges::find_if(steps, [](const json& s) { return s["config"] == GetParam(); });
  ASSERT_NE(step, steps.end()) << "no step of it was measured";
  const PlannedStep planned(GetParam());
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

std::vector<std::string> BenchConfigs() {
  std::vector<std::string> files = config::ConfigFiles();
  std::erase_if(files, [](const auto& file) { return !file.starts_with("configs/bench/"); });
  return files;
}

INSTANTIATE_TEST_SUITE_P(Configs, MeasuredStep, testing::ValuesIn(BenchConfigs()),
                         [](const auto& info) { return config::TestName(info.param); });

}  // namespace
}  // namespace plimsoll::trainer
