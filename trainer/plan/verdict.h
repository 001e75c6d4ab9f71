// The answer of `plimsoll plan`, which its first lines give: does the plan fit, how fast is a step,
// what was chosen.
#pragma once

#include <string>

#include "memory/cost_model.h"
#include "memory/plan.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// Whether a run's plan stays under its line (MemoryLineOf), for a GPU or not.
bool Fits(const config::RunConfig& config, const memory::MemoryPlan& plan);

// The plan of a run whose step takes `seconds` by the rates of `cost`. `chosen` is what a solver
// chose (StepSolver::Describe); empty: nothing was open.
// `way_out`: what would make it fit where it doesn't (WaysToFit::Text).
std::string Verdict(const config::RunConfig& config, const CompiledStep& compiled,
                    const memory::CostModel& cost, double seconds, const std::string& chosen,
                    const std::string& way_out);

}  // namespace plimsoll::trainer
