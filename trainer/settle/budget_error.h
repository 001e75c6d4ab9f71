// The error when no allowed plan fits the budget: it names the smallest plan, what that plan holds,
// and the one change that would make it fit.
#pragma once

#include "memory/solver.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Throws the UserError with ExitCode::kBudgetNotMet. `smallest`: the run's smallest plan, which
// needs a limit of `needed` bytes on the device.
[[noreturn]] void ThrowBudgetNotMet(const config::RunConfig& config, const memory::Budget& budget,
                                    const memory::MemoryPlan& smallest, int64_t needed);

}  // namespace plimsoll::trainer
