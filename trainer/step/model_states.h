// The states of a model (models::StateInfo) in the programs of a step.
//
//   train, train_first            %next = moving_average(%state, …)
//                                 %state.pending = cast(%next)
//   train_middle, train_last      %next = moving_average(%state.pending, …)
//                                 %state.pending = cast(%next)
//   then, with an update          %state = commit_state(%state.pending, %apply)
//
// With OverMicroSteps::kSum and kMean (for kMean the update divides by the number of micro-steps):
//
//   train_middle, train_last      %next = moving_average(%state, …)
//                                 %state.pending = add_to_state(%state.pending, %next)
//
// With OverMicroSteps::kMax: %state.pending = max_magnitude(%next, %state.pending).
//
// So all micro-steps read a state's value at the beginning of the step, and a skipped step does not
// change the state.
#pragma once

#include <span>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "models/model.h"

namespace plimsoll::trainer {

// Makes a forward pass write the new values of its states to pending tensors, which the next
// micro-step or the update reads. With Carry::kAccumulate the pass starts from, or adds to
// (OverMicroSteps::kSum, kMean and kMax), the pending values of the micro-step before it. Otherwise
// the pass starts from the states themselves.
void CarryStates(graph::Builder& builder, std::span<const models::StateUpdate> updates,
                 graph::Carry carry);

}  // namespace plimsoll::trainer
