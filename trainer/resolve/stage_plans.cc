#include "trainer/resolve/stage_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/smallest_stages.h"
#include "trainer/resolve/stages_from.h"

namespace plimsoll::trainer {
namespace {

// Throws a UserError for open knobs: stages are planned one by one, so no choice that all stages
// share can be open.
void RequireClosed(config::RunConfig config) {
  config.checkpointing.policy = config::CheckpointPolicy::kNone;
  if (const char* const key = FirstOpen(config)) {
    throw config.Error(key, "auto is not possible with pipeline stages; give a value");
  }
}

}  // namespace

StagePlans::StagePlans(const config::RunConfig& config, const StepSolverOptions& options)
    : config_(config), options_(options) {
  RequireClosed(config);
  RequireBudget(config);
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  ChooseStages(config_, *model);
  ChooseChannels(config_);
  budget_ = BudgetOf(config_);
  const int64_t beyond = Plan();
  if (beyond < 0) return;
  const std::vector<double> even = config_.parallel.stages;
  const SmallestStages smallest = SmallestOfStages(config, LimitsOf(budget_), options.coarse);
  config_.parallel.stages.assign(smallest.blocks.begin(), smallest.blocks.end());
  if (!smallest.needs.Within(LimitsOf(budget_)) || Plan() >= 0) {
    if (!options.coarse) RefuseStages(config, budget_, smallest);
    stages_.clear();
    for (int64_t stage = 0; stage < config_.parallel.pipeline; ++stage) {
      Stage& made = AddStage();
      made.plan = &made.solver->solver().Smallest(budget_);
    }
  }
  division_ = fmt::format("parallel.stages: [{}], because with [{}] stage {} has no plan that fits",
                          fmt::join(config_.parallel.stages, ", "), fmt::join(even, ", "), beyond);
}

StagePlans::Stage& StagePlans::AddStage() {
  options_.stage = std::ssize(stages_);
  Stage& added = stages_.emplace_back();
  added.solver = std::make_unique<StepSolver>(config_, options_);
  return added;
}

int64_t StagePlans::Plan() {
  stages_.clear();
  for (int64_t stage = 0; stage < config_.parallel.pipeline; ++stage) {
    Stage& made = AddStage();
    made.plan = made.solver->solver().Fastest(budget_);
    if (made.plan == nullptr) return stage;
  }
  return -1;
}

CompileOptions StagePlans::Options() const {
  CompileOptions options = stages_.front().solver->OptionsOf(*stages_.front().plan);
  options.retention.clear();
  for (const Stage& stage : stages_) {
    options.stage_retentions.push_back(stage.solver->OptionsOf(*stage.plan).retention);
  }
  return options;
}

double StagePlans::Seconds() const {
  CompileOptions options = Options();
  options.dump_directory.clear();
  const CompiledStep first = Compile(model(), options);
  return PredictSeconds(first, CompileOtherStages(model(), first), cost());
}

std::vector<std::string> StagePlans::Texts() const {
  std::vector<std::string> texts;
  for (const Stage& stage : stages_) {
    const memory::ExactPlan& exact = *stage.plan->exact;
    std::string& text = texts.emplace_back(stage.solver->Describe(*stage.plan));
    if (exact.recompute_seconds == 0) continue;
    text += fmt::format(" ({:.1f} % of its time)", 100 * exact.recompute_seconds / exact.seconds);
  }
  return texts;
}

std::string StagePlans::Describe() const {
  std::string text;
  const std::vector<std::string> texts = Texts();
  for (size_t stage = 0; stage < texts.size(); ++stage) {
    text += fmt::format("{}stage {}: {}", stage == 0 ? "" : "; ", stage, texts[stage]);
  }
  return division_.empty() ? text : text + "; " + division_;
}

}  // namespace plimsoll::trainer
