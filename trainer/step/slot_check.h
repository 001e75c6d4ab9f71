// Replays the run list of a pipeline stage to check which micro-batch's value each slot tensor
// holds. A slot holds the tensors of one micro-batch in flight. The check does not use the code
// that made the list, nor the proof of all stages' lists (trainer/step/stage_schedule.h), which
// does not model tensors.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

// Checks these rules:
//
// - A run reads only values of its own micro-batch, and only from tensors of its own slot.
// - A run, the link or the host overwrites a value only after all runs of the value's micro-batch
//   that read the value.
// - A run sends a value of its own micro-batch. A run or the update that overwrites the value first
//   waits until the value is sent.
//
// `kept`: the names of the slot tensors kept from forward to backward passes. `shared`: the names
// of inputs that all micro-batches read (UpdateInputs). Throws an InternalError that names the run
// and the tensor.
using TensorNames = std::set<std::string, std::less<>>;
void CheckSlots(const ProgramList& programs, std::span<const StepEntry> entries,
                const TensorNames& kept, const TensorNames& shared);

}  // namespace plimsoll::trainer
