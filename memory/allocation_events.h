// The allocate and free events of a program, from the same lifetimes for which the arena is
// planned.
#pragma once

#include "graph/program.h"
#include "runtime/allocation_schedule.h"

namespace plimsoll::memory {

// A buffer is allocated before the first node that uses it, in the order in which that node names
// its buffers, and freed after the last. Inputs and metrics of the program
// always have memory.
//
// `in_place`: a tensor that the plan lets an op write over its dying input keeps that memory here
// too. So the events are exactly those of the plan, and only the allocator differs. Without, every
// tensor has its own buffer, as in a framework whose ops return new tensors.
runtime::AllocationSchedule MakeAllocationSchedule(const graph::Program& program,
                                                   bool in_place = true);

}  // namespace plimsoll::memory
