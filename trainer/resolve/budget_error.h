// Refuses runs without a plan that fits memory.budget and memory.host_budget. The refusals are
// UserErrors with ExitCode::kBudgetNotMet; they name the smallest plan, what that plan holds, and
// the one change that would make it fit.
#pragma once

#include <cstdint>

#include "memory/plan.h"
#include "memory/solver.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/smallest_stages.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {

// Two checks without a search. HasRoomForState: whether memory.budget holds the parameters and
// optimizer states that must be on the device. RequireRoomForParameters refuses a budget smaller
// than the parameters alone.
bool HasRoomForState(const config::RunConfig& config, const memory::Budget& budget);
void RequireRoomForParameters(const config::RunConfig& config, const memory::Budget& budget);

// Refuses a run for which the solver finds no plan within the budget.
[[noreturn]] void RefuseBudget(const memory::Budget& budget, StepSolver& solver);

// Refuses a run whose stages cannot all be planned within the budget. The error names the least
// budget that every stage can meet. `config`: the run without a choice of parallel.stages.
// `smallest`: its SmallestOfStages within the budget's limits.
[[noreturn]] void RefuseStages(const config::RunConfig& config, const memory::Budget& budget,
                               const SmallestStages& smallest);

// Refuses a compiled plan that exceeds its limits. `stage`: the stage of a pipeline that it is of;
// the error names the stage that needs the most.
void CheckBudget(const config::RunConfig& config, const memory::MemoryPlan& plan,
                 int64_t stage = 0);

}  // namespace plimsoll::trainer
