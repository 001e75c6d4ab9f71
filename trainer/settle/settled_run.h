// Resolves a run to a plan: the choices that the file leaves open are made within its budget.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/ranks/world.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/step_solver.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// A sentence for each key of trainer/settle/knobs.h that the run leaves open and, with
// `used_only`, the plan uses: "memory.weights: host, because with device the fastest plan that fits
// takes 812.3 ms"; and one for the number of blocks, where the solver chose it. `chosen` is the
// fastest candidate within the budget.
std::vector<std::string> ChoiceReasons(StepSolver& solver, const memory::Candidate& chosen,
                                       const memory::Budget& budget, bool used_only);

// A run as it will be compiled.
struct SettledRun {
  // The choices are made, also of the mesh and of NCCL's channels. memory.host_blocks may still be
  // auto, which means all blocks, and so may checkpointing.policy: `options` say what is kept.
  config::RunConfig config;
  CompileOptions options;
  // What the solver chose and why, for the log; empty when nothing was left to it.
  std::string chosen;
};

// A plan of one layout of the ranks.
struct LayoutCost {
  double seconds = 0;  // for the same work
  int64_t bytes = 0;   // of a rank's device
};
// Layouts are as fast as one another where predictions differ by less than this part.
inline constexpr double kAsFast = 0.005;
// The number of the fastest; of layouts that are as fast, of the one with the fewest bytes, and the
// first of these.
size_t FastestLayout(std::span<const LayoutCost> layouts);

// The fastest plan within the budget of a run that leaves choices open, and the solver that knows
// it: of all layouts of the ranks that are open, FastestLayout of the fastest plan of each.
struct FastestPlan {
  // UserError without a budget; with ExitCode::kBudgetNotMet when no allowed plan fits.
  explicit FastestPlan(const config::RunConfig& config);

  Activity activity{"looking for the fastest plan within memory.budget"};
  memory::Budget budget;
  std::unique_ptr<StepSolver> solver;  // of the layout
  const memory::Candidate* plan = nullptr;

  // What was chosen, and why: StepSolver::Describe and ChoiceReasons, behind the layout.
  std::string Describe() const;
  std::vector<std::string> Reasons(bool used_only) const;

 private:
  std::string layout_;  // in words; empty: the run leaves none open
};

// Makes the choices that the file leaves open (FastestPlan).
SettledRun Settle(const config::RunConfig& config, const models::Model& model);

// The choices of rank 0; the other ranks' timings and free memory may differ and are ignored. All
// ranks call.
SettledRun SettleOnFirst(const config::RunConfig& config, const models::Model& model,
                         runtime::RankGroup& ranks);

}  // namespace plimsoll::trainer
