// The step of a pipeline stage: its micro-steps, cut by their phases (forward, backward) into
// programs for each slot, in the order of 1F1B (stage_schedule.h). A slot holds one micro-batch in
// flight. The program runs of a step:
//
//   train_first, train_middle × 2, train_last        one rank, 4 micro-steps
//
//   forward, micro_step.1.forward, backward, …, update   the first of 2 stages
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/pass.h"
#include "graph/program.h"
#include "models/model.h"
#include "trainer/step/compile_options.h"
#include "trainer/step/passes.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

// Returns whether each slot has its own copy of a carried tensor. True for data inputs and for
// tensors that a stage receives or sends.
std::function<bool(const graph::Tensor&)> OfSlots(std::span<const models::Objective> objectives);

// Replaces the entries of one objective, each of one micro-step, and their programs by the entries
// and programs of the stage. Programs with equal text are stored once. `run` runs the passes of
// parts. Throws an InternalError unless the lists of all stages together run to their end
// (trainer/step/stage_schedule.h) and each slot's tensors hold the values that runs read
// (trainer/step/slot_check.h). Returns the names of the tensors that micro-batches keep from their
// forward to their backward pass.
std::set<std::string, std::less<>> CutIntoPhases(const CompileOptions& options,
                                                 std::span<const models::Objective> objectives,
                                                 ProgramList& programs,
                                                 std::vector<StepEntry>& entries,
                                                 const PassRunner& run);

// The programs for an evaluation of a stage: `stage` computes up to the tensor that the stage
// sends; `sums` adds up metrics over stages.
struct StageEvaluation {
  std::shared_ptr<const graph::Program> stage, sums;
};
StageEvaluation CutEvaluation(const CompileOptions& options,
                              std::span<const models::Objective> objectives,
                              const graph::Program& whole, const PassRunner& run);

}  // namespace plimsoll::trainer
