// Replays the list of a pipeline's stage on the tensors of its slots: which micro-batch's value
// each one has. Independent of how the list was made, and of the proof of all stages' lists
// (trainer/step/stage_schedule.h), which knows no tensors.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

// - A run reads of its slot's tensors values of its own micro-batch alone, and of no other slot's.
// - A value is written over, by a run, the link or the host, only when all runs of its micro-batch
//   that read it have run.
// - What is sent is of the run's micro-batch. A run that writes it again, or the update, awaits it
//   before.
// `kept`: the names of what slots keep from forward to backward passes; `shared`: those of inputs
// that all micro-batches read (UpdateInputs). InternalError that names the run and the tensor.
using TensorNames = std::set<std::string, std::less<>>;
void CheckSlots(const ProgramList& programs, std::span<const StepEntry> entries,
                const TensorNames& kept, const TensorNames& shared);

}  // namespace plimsoll::trainer
