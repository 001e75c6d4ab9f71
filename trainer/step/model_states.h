// The states of a model (models::StateInfo) in the programs of a step.
//
//   train, train_first            %next = moving_average(%state, …)
//                                 %state.pending = cast(%next)
//   train_middle, train_last      %next = moving_average(%state.pending, …)
//                                 %state.pending = cast(%next)
//   behind it, with an update     %state = commit_state(%state.pending, %apply)
//
// So all micro-steps read the state that the step began with, and a step that is skipped leaves it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "models/model.h"

namespace plimsoll::trainer {

// Lets a forward pass leave what it makes of the states to the micro-step behind it, or to the
// update, and start from what the micro-step before it has left, which with Carry::kAccumulate
// there is.
void CarryStates(graph::Builder& builder, std::span<const models::StateUpdate> updates,
                 graph::Carry carry);

// Of these, the names of tensors that data ranks average.
std::vector<std::string> AveragedStates(std::span<const models::StateUpdate> updates);

}  // namespace plimsoll::trainer
