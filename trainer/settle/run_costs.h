// How long ops, copies and steps of a run take.
#pragma once

#include <span>
#include <string>

#include "memory/cost_model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// A cost model with the built-in rates of the run's device.
memory::CostModel BuiltInCost(const config::RunConfig& config);
// The cost of these programs' nodes: timed on this device, unless memory.calibrate is false.
memory::CostModel CostModelFor(const config::RunConfig& config,
                               std::span<const graph::Program* const> programs);
// The source of the model's times: "by rates measured here on 2026-11-20", "by built-in rates of an
// NVIDIA H200", "by built-in rates of an NVIDIA H200, scaled to the data sheet of an NVIDIA T4,
// never measured there".
std::string RatesText(const config::RunConfig& config, const memory::CostModel& cost);
// The time of a whole step: all micro-steps and the update. Of a stage of a pipeline, as if the others
// took as long, with what it waits for them.
double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost);

}  // namespace plimsoll::trainer
