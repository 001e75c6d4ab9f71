// `plimsoll plan`: the memory plan of a run, without running it, and its alternatives.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll::trainer {

struct PlanCommand {
  std::string file;
  std::vector<std::string> sets;
  // The GPU to plan for (trainer/resolve/known_gpus.h), or cpu; empty: the file's device.
  std::string device;
  // Overrides memory.budget, and lets the solver choose what is kept unless the file says so.
  std::string budget;
  int sweep = 0;            // number of budgets, from the fastest plan's to the smallest's; 0: none
  std::string largest;      // --max: train.micro_batch, model.sequence or model.layers; empty: none
  int64_t ranks = 0;        // number of ranks to lay out in every way; 0: as the file says
  bool parameters = false;  // list them instead
  bool check = false;       // also compile and check the step of every rank (check_ranks.h)
  int64_t started = 1;      // ranks that were started; the plan is for as many
  bool json = false;
  std::string html;  // file to draw the plan into; empty: none
  // The older plan to compare with: a run file, a run directory, or a plan that was saved as JSON;
  // empty: none. `sets` and `budget` don't hold for it, `device` does.
  std::string diff;
  std::string fail_above;  // the growth that is allowed then: "1%"; empty: any
};

// Prints bytes by role, the peak, the arena and its fragmentation, FLOPs and the predicted time of
// a step. With a budget it also prints the candidate plans, with `sweep` the time–memory front,
// with `largest` the greatest value of that key that fits, with `ranks` the bytes of each rank for
// every mesh, with `parameters` a list of these; with `html` it draws the plan, with
// `check` it also checks those of all ranks. Looks at the data (look_at_data.h), and times those
// that threads prepare; allocates no arena. UserError with ExitCode::kBudgetNotMet when no plan
// fits the budget; returns that code when the plan is printed and is too large for the GPU that it
// is for.
ExitCode RunPlan(const PlanCommand& command);

// The plan of a command that asks for no other, as `--json` prints it but without other candidates;
// prints nothing but warnings, and times no data. Returns and throws what RunPlan does.
ExitCode PlanInto(const PlanCommand& command, nlohmann::ordered_json& object);

// `plan --diff`: a figure grew by more than `--fail-above`.
inline constexpr ExitCode kGrown{1};

// `plan NEW --diff OLD` (diff_command.cc): prints what changes from the plan of OLD to that of NEW
// (plan_difference.h). Returns kGrown when the arena, the host's bytes or the predicted
// time grew by more than `fail_above`, unless the new plan is too large for its GPU. UserError for
// an older plan that is neither a run file nor a saved plan.
ExitCode RunPlanDiff(const PlanCommand& command);

}  // namespace plimsoll::trainer
