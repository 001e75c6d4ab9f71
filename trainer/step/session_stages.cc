// Part of trainer/step/session.h: the tensors that a pipeline stage receives and sends between its
// runs (runtime/stage_link.h), and the slots of its micro-batches.
#include <fmt/format.h>

#include <algorithm>

#include "base/axes.h"
#include "base/error.h"
#include "graph/micro_steps.h"
#include "parallel/cut_stage.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

using runtime::LinkDirection;

void Session::MakeStage() {
  if (position_.ranks(kPipelineAxis) == 1) return;
  if (link_ == nullptr) throw InternalError("a stage of a pipeline has no link to the others");
  for (size_t slot = 0; slot < inputs_.size(); ++slot) {
    const auto find = [&](std::string_view name) {
      return Find(graph::OfMicroStep(static_cast<int64_t>(slot), name));
    };
    of_stage_.push_back({find(parallel::kStageIn), find(parallel::kStageOut),
                         find(parallel::kStageInGrad), find(parallel::kStageOutGrad)});
  }
  for (int64_t run = 0; run < compiled_.step.runs(); ++run) {
    const StepRun what = compiled_.step.At(run);
    if (what.action != StepAction::kForward) continue;
    // The forward pass has filled the inputs already; the backward pass reads them in place.
    MicroStepInputs& inputs = inputs_.at(static_cast<size_t>(what.slot));
    std::vector<size_t>& read = inputs.read_by.at(static_cast<size_t>(what.program));
    read.resize(inputs.slots.size());
    for (size_t i = 0; i < read.size(); ++i) read[i] = i;
  }
  AddUnreadSlots();
}

// Adds slots for inputs that the stage does not read, because data sources fill all inputs of a
// model. A stage that reads no input at all gets no slots.
void Session::AddUnreadSlots() {
  for (MicroStepInputs& inputs : inputs_) {
    if (inputs.slots.empty()) continue;
    for (const auto& [name, type] : compiled_.inputs) {
      if (std::ranges::find(inputs.slots, name, &Slot::name) != inputs.slots.end()) continue;
      inputs.slots.push_back({.name = name, .type = type, .bytes = {}});
      inputs.places.push_back({});
    }
  }
}

void Session::Receive(const StepRun& what) {
  if (!has_stages()) return;
  // Sends in flight must end before the update's collectives begin.
  if (what.action == StepAction::kUpdate) link_->AwaitSends();
  if (!what.sends.empty()) {
    link_->AwaitSend(what.sends == parallel::kStageOut ? LinkDirection::kDown : LinkDirection::kUp,
                     what.slot);
  }
  if (what.receives.empty()) return;
  const StageTensors& tensors = of_stage_.at(static_cast<size_t>(what.slot));
  const bool down = what.receives == parallel::kStageIn;
  const LinkDirection direction = down ? LinkDirection::kDown : LinkDirection::kUp;
  link_->StartReceive({direction, what.slot, what.micro_step},
                      down ? tensors.in.bytes : tensors.out_grad.bytes);
  link_->AwaitReceive(direction, what.slot);
}

void Session::Send(const StepRun& what) {
  if (!has_stages() || what.sends.empty()) return;
  const StageTensors& tensors = of_stage_.at(static_cast<size_t>(what.slot));
  const bool down = what.sends == parallel::kStageOut;
  link_->StartSend({down ? LinkDirection::kDown : LinkDirection::kUp, what.slot, what.micro_step},
                   down ? tensors.out.bytes : tensors.in_grad.bytes);
}

// Evaluation uses slot 0 only, for one batch at a time.
StepRun Session::EvaluationOfStage() const {
  const int64_t stage = position_.at(kPipelineAxis);
  const bool last = stage + 1 == position_.ranks(kPipelineAxis);
  StepRun run;
  run.action = StepAction::kForward;
  if (stage > 0) run.receives = parallel::kStageIn;
  if (!last) run.sends = parallel::kStageOut;
  return run;
}

}  // namespace plimsoll::trainer
