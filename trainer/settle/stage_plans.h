// The plans of a pipeline's stages, each the fastest within the budget: a late stage has fewer
// micro-batches in flight, and recomputes less. Where no plan of a stage fits, it leaves blocks to
// the others, unless parallel.stages says how many each has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/step_solver.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class StagePlans {
 public:
  // Of a run that leaves checkpointing.policy to the budget. UserError without a budget, and where
  // another choice is open; with ExitCode::kBudgetNotMet when no division of the blocks fits.
  explicit StagePlans(const config::RunConfig& config);

  // The run with the blocks of each stage.
  const config::RunConfig& config() const { return config_; }
  const models::Model& model() const { return stages_.front().solver->model(); }
  const memory::CostModel& cost() const { return stages_.front().solver->cost(); }
  const memory::Budget& budget() const { return budget_; }
  // For the ranks of all stages.
  CompileOptions Options() const;
  // Of a step of all stages, predicted.
  double Seconds() const;

  // What each stage does: "recompute norm_1", and all of them, with the division where it is not
  // the most even one.
  std::vector<std::string> Texts() const;
  std::string Describe() const;

 private:
  struct Stage {
    std::unique_ptr<StepSolver> solver;
    const memory::Candidate* plan = nullptr;
  };

  // Returns the first stage that no plan fits; -1: all have one.
  int64_t Plan();

  Activity activity_{"looking for the fastest plan of each stage within memory.budget"};
  config::RunConfig config_;
  memory::Budget budget_;
  std::vector<Stage> stages_;
  std::string division_;  // in words; empty: the file's, or the most even one
};

}  // namespace plimsoll::trainer
