// Predicts the times of ops, copies and steps of a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memory/cost_model.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {

// A cost model with the built-in rates of the run's device.
memory::CostModel BuiltInCost(const config::RunConfig& config);
// A cost model for the nodes of these programs. It times them on this device, unless
// memory.calibrate is false.
memory::CostModel CostModelFor(const config::RunConfig& config,
                               std::span<const graph::Program* const> programs);
// The source of the model's times: "by rates measured here on 2026-11-20", "by built-in rates of an
// NVIDIA H200", "by built-in rates of an NVIDIA H200, scaled to the data sheet of an NVIDIA T4,
// never measured there".
std::string RatesText(const config::RunConfig& config, const memory::CostModel& cost);
// The time of a complete step: all micro-steps and the update. For a stage of a pipeline, the time
// that it waits for other stages is not included.
double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost);

// Compiles the steps of a pipeline's other stages, in their order; returns none without stages.
std::vector<CompiledStep> CompileOtherStages(const models::Model& model, const CompiledStep& first);
// The average time of a stage's runs, for each kind of run.
StageSeconds StageSecondsOf(const CompiledStep& compiled, const memory::CostModel& cost);
// The timeline of a step over all stages.
StepTimeline PredictStages(std::span<const StageSeconds> stages, int64_t micro_batches);
double PredictSeconds(const CompiledStep& first, std::span<const CompiledStep> others,
                      const memory::CostModel& cost);

}  // namespace plimsoll::trainer
