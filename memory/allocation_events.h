// The allocate and free events of a program, from the same lifetimes that the arena is planned
// with.
#pragma once

#include "graph/program.h"
#include "runtime/allocation_schedule.h"

namespace plimsoll::memory {

// Buffers are allocated before the node of their birth, in the order in which it names them, and
// freed after the node of their death; inputs and metrics of the program are held all the time.
//
// `in_place`: a tensor that the plan lets an op write over its dying input keeps that memory here
// too. So the events are exactly those of the plan, and what differs is the allocator alone.
// Without, every tensor has a buffer of its own, as in a framework whose ops return new tensors.
runtime::AllocationSchedule MakeAllocationSchedule(const graph::Program& program,
                                                   bool in_place = true);

}  // namespace plimsoll::memory
