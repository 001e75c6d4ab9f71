// Refusals of runs without a plan that fits memory.budget and memory.host_budget: UserErrors with
// ExitCode::kBudgetNotMet, which name the smallest plan, what that plan holds, and the one change
// that would make it fit.
#pragma once

#include "memory/plan.h"
#include "memory/solver.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {

// Found without a search: whether a memory.budget is as large as the parameters and the optimizer's
// state, as far as they must be on the device; and the refusal of one that is less than the
// parameters alone.
bool HasRoomForState(const config::RunConfig& config, const memory::Budget& budget);
void RequireRoomForParameters(const config::RunConfig& config, const memory::Budget& budget);

// Refuses the solver's run.
[[noreturn]] void RefuseBudget(const memory::Budget& budget, StepSolver& solver);

// Refuses a compiled plan that exceeds its limits.
void CheckBudget(const config::RunConfig& config, const memory::MemoryPlan& plan);

}  // namespace plimsoll::trainer
