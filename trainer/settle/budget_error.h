// What to say when no allowed plan fits the budget: the smallest that would do, what it holds, and
// the one change that would make it fit.
#pragma once

#include "memory/solver.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Throws the UserError with ExitCode::kBudgetNotMet. `smallest`: the smallest plan of the run,
// which a line of `needed` bytes for the device lets through.
[[noreturn]] void ThrowBudgetNotMet(const config::RunConfig& config, const memory::Budget& budget,
                                    const memory::MemoryPlan& smallest, int64_t needed);

}  // namespace plimsoll::trainer
