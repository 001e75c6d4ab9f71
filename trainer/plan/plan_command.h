// `plimsoll plan`: the memory plan of a run, without running it, and what else it could be.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::trainer {

struct PlanCommand {
  std::string file;
  std::vector<std::string> sets;
  // A GPU of trainer/settle/known_gpus.h, or cpu, to plan for; empty: as the file says.
  std::string device;
  // Stands for memory.budget, and lets the solver choose what is kept unless the file says it.
  std::string budget;
  int sweep = 0;        // how many budgets to solve, from the fastest plan to the smallest; 0: none
  std::string largest;  // --max: train.micro_batch, model.sequence or model.layers; empty: none
  int64_t ranks = 0;    // how many to lay out in every way; 0: as the file says
  int64_t started = 1;  // ranks, which are planned for as they would train
  bool json = false;
  std::string html;  // file to draw the plan into; empty: none
};

// Prints bytes by role, the peak, the arena and its fragmentation, FLOPs and the predicted time of
// a step; with a budget the candidate plans, with `sweep` the time–memory front, with `largest` the
// greatest value of that key that fits; with `html` also draws the plan; with `ranks` what each
// takes for every mesh. Opens no data and allocates no arena. UserError with
// ExitCode::kBudgetNotMet when no plan fits.
void RunPlan(const PlanCommand& command);

}  // namespace plimsoll::trainer
