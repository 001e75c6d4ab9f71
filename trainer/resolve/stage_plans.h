// Plans the stages of a pipeline, each with the fastest plan within the budget: a late stage has
// fewer micro-batches in flight, and recomputes less. If no plan of a stage fits, that stage gives
// blocks to the other stages, unless parallel.stages fixes the number of blocks of each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class StagePlans {
 public:
  // Plans the stages of a run that leaves checkpointing.policy to the budget. UserError without a
  // budget, and if another choice is open; with ExitCode::kBudgetNotMet when no division of the
  // blocks fits.
  explicit StagePlans(const config::RunConfig& config) : StagePlans(config, {}) {}
  // Plans the stages by a quick search at built-in rates, to compare layouts. When no division
  // fits, takes the smallest plans of the division that needs the fewest bytes.
  static StagePlans Quick(const config::RunConfig& config) {
    return StagePlans(config, {.built_in_rates = true, .coarse = true});
  }

  // The run with the number of blocks of each stage filled in.
  const config::RunConfig& config() const { return config_; }
  const models::Model& model() const { return stages_.front().solver->model(); }
  const memory::CostModel& cost() const { return stages_.front().solver->cost(); }
  const memory::Budget& budget() const { return budget_; }
  // Compile options for the ranks of all stages.
  CompileOptions Options() const;
  // The predicted time of a step over all stages.
  double Seconds() const;

  // Texts: for each stage, what it does: "recompute norm_1". Describe: these texts joined; if
  // blocks are not divided as evenly as possible, the text also gives the division.
  std::vector<std::string> Texts() const;
  std::string Describe() const;

 private:
  struct Stage {
    std::unique_ptr<StepSolver> solver;
    const memory::Candidate* plan = nullptr;
  };

  StagePlans(const config::RunConfig& config, const StepSolverOptions& options);

  // Adds a stage without a plan.
  Stage& AddStage();
  // Plans each stage. Returns the first stage for which no plan fits; −1 if all stages have a plan.
  int64_t Plan();

  Activity activity_{"looking for the fastest plan of each stage within memory.budget"};
  config::RunConfig config_;
  StepSolverOptions options_;
  memory::Budget budget_;
  std::vector<Stage> stages_;
  std::string division_;  // text of the solver's division of blocks; empty if the division is the
                          // file's or the most even one
};

}  // namespace plimsoll::trainer
