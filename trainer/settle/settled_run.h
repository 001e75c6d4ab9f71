// A run as it will be compiled: the choices that the file leaves open, made within its budget.
#pragma once

#include <string>

#include "models/model.h"
#include "runtime/world.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// A run as it will be compiled.
struct SettledRun {
  config::RunConfig config;  // no key is auto any more
  CompileOptions options;
  // What the solver chose and why, for the log; empty when nothing was left to it.
  std::string chosen;
};

// Makes the choices that the file leaves open, within memory.budget. UserError when a choice is
// open and there is no budget; with ExitCode::kBudgetNotMet when no allowed plan fits.
SettledRun Settle(const config::RunConfig& config, const models::Model& model);

// The choices of rank 0; the other ranks' timings and free memory may differ and are ignored. All
// ranks call.
SettledRun SettleOnFirst(const config::RunConfig& config, const models::Model& model,
                         runtime::RankGroup& ranks);

}  // namespace plimsoll::trainer
