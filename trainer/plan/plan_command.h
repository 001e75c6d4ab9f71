// `plimsoll plan`: the memory plan of a run, without running it, and alternative plans.
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
  // The GPU to plan for (trainer/resolve/known_gpus.h), or cpu; empty means the file's device.
  std::string device;
  // Overrides memory.budget, and lets the solver choose which activations are kept unless the file
  // does.
  std::string budget;
  int sweep = 0;            // number of budgets to sweep; 0 means no sweep
  std::string largest;      // key of --max: "train.micro_batch"; empty means none
  int64_t ranks = 0;        // plan each layout of that number of ranks; 0 means the file's layout
  bool parameters = false;  // list the parameters instead of the plan
  bool check = false;       // also compile and check the steps of all ranks (check_ranks.h)
  int64_t started = 1;      // ranks that were started; the plan is for this number
  bool json = false;
  std::string html;  // output file for a picture of the plan; empty means none
  // The older plan to compare with: a run file, a run directory, or a plan saved as JSON; empty
  // means none. `device` also applies to the older plan; `sets` and `budget` do not.
  std::string diff;
  std::string fail_above;  // growth that the comparison allows: "1%"; empty means any growth
};

// Prints bytes by role, the peak, the arena and its fragmentation, FLOPs and the predicted time of
// a step. Further output by option: with a budget, the candidate plans; with `sweep`, the
// time–memory front; with `largest`, the largest value of that key that fits; with `ranks`, each
// rank's bytes for every mesh; with `parameters`, a list of parameters. `html` draws the plan, and
// `check` checks the plans of all ranks. Checks the data (look_at_data.h), and times samples that
// threads prepare; allocates no arena. Throws a UserError with ExitCode::kBudgetNotMet if no plan
// fits the budget; returns that code if the printed plan is too large for its GPU.
ExitCode RunPlan(const PlanCommand& command);

// The plan of a command, as `--json` prints it, but without the other candidate plans. Prints only
// warnings, and does not time the data. Returns and throws like RunPlan.
ExitCode PlanInto(const PlanCommand& command, nlohmann::ordered_json& object);

// The exit code of `plan --diff` if a figure grew by more than `--fail-above`.
inline constexpr ExitCode kGrown{1};

// `plan NEW --diff OLD` (diff_command.cc): prints the changes from the plan of OLD to that of NEW
// (plan_difference.h). Returns kGrown if the arena, the host's bytes or the predicted time grew by
// more than `fail_above`, unless the new plan is too large for its GPU. Throws a UserError if OLD
// is neither a run file nor a saved plan.
ExitCode RunPlanDiff(const PlanCommand& command);

}  // namespace plimsoll::trainer
