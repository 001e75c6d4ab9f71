// Resolves a run to a plan: chooses within the budget what the file leaves open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/ranks/world.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// A sentence for each key of trainer/resolve/knobs.h that the run leaves open: "memory.weights:
// host, because with device the fastest plan that fits takes 812.3 ms". With `used_only`, only for
// keys that the plan uses. One more sentence explains the number of blocks, if the solver chose it.
// `chosen` is the fastest candidate within the budget.
std::vector<std::string> ChoiceReasons(StepSolver& solver, const memory::Candidate& chosen,
                                       const memory::Budget& budget, bool used_only);

// A run after all choices, ready to be compiled.
struct ResolvedRun {
  // The run with all choices made, including the mesh and NCCL's channels. Two keys may still be
  // auto: memory.host_blocks, which then means all blocks, and checkpointing.policy, because
  // `options` say which activations are kept.
  config::RunConfig config;
  CompileOptions options;
  // What the solver chose and why, for the log; empty when nothing was left to the solver.
  std::string chosen;
};

// The cost of the plan of one layout of the ranks.
struct LayoutCost {
  double seconds = 0;  // time of a step; all layouts do the same work
  int64_t bytes = 0;   // bytes on a rank's device
};
// Two layouts count as equally fast if their predicted times differ by less than this fraction.
inline constexpr double kAsFast = 0.005;
// The index of the best layout: among layouts that count as equally fast as the fastest (kAsFast),
// the layout with the fewest bytes; if several have the fewest, the first of them.
size_t FastestLayout(std::span<const LayoutCost> layouts);

// The fastest plan within the budget of a run that leaves choices open, and the solver that found
// it. If the ranks' layout is open, compares the fastest plans of all layouts by FastestLayout.
struct FastestPlan {
  // UserError without a budget; with ExitCode::kBudgetNotMet when no allowed plan fits.
  explicit FastestPlan(const config::RunConfig& config);

  Activity activity{"looking for the fastest plan within memory.budget"};
  memory::Budget budget;
  std::unique_ptr<StepSolver> solver;  // the solver of the chosen layout
  const memory::Candidate* plan = nullptr;

  // Describe: the choices (the layout, then StepSolver::Describe). Reasons: ChoiceReasons for these
  // choices.
  std::string Describe() const;
  std::vector<std::string> Reasons(bool used_only) const;

 private:
  std::string layout_;  // text of the chosen layout; empty if no layout is open
};

// Chooses what the file leaves open (FastestPlan).
ResolvedRun ResolveRun(const config::RunConfig& config, const models::Model& model);

// Returns the choices of rank 0 on all ranks; timings and free memory of the other ranks may differ
// and are ignored. All ranks call this.
ResolvedRun ResolveOnFirst(const config::RunConfig& config, const models::Model& model,
                           runtime::RankGroup& ranks);

}  // namespace plimsoll::trainer
