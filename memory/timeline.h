// The memory plan of each program over its nodes: which tensor holds which bytes from when to when.
// Source of the run directory's memory_timeline.json and of the summary at the end of a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "memory/plan.h"

namespace plimsoll::memory {

// A tensor of a buffer. The buffer's tensors follow one another: each overwrites the one before.
struct TimelineTensor {
  std::string name;
  graph::TensorType type;
  graph::Role role = graph::Role::kActivation;
  std::string op, scope;  // of its writer; empty for what the host fills
  // Nodes at which the bytes are this tensor's, both included.
  int32_t birth = 0, death = 0;
};

struct TimelineBuffer {
  std::vector<TimelineTensor> tensors;  // not empty
  graph::Place place = graph::Place::kDevice;
  int64_t offset = 0;  // in the arena of the place
  int64_t bytes = 0;   // rounded up to the plan's alignment
  int32_t birth = 0, death = 0;
};

struct ProgramTimeline {
  std::string name;
  std::vector<TimelineBuffer> buffers;  // temporaries, by birth
  // Bytes alive at each node in the device arena (the plan's) and in the host arena, persistent
  // tensors included.
  std::vector<int64_t> live_bytes, host_live_bytes;
};

// One timeline per program, as given to MakePlan with the same `in_place`. Persistent tensors are
// listed in plan.persistent: they are alive throughout.
std::vector<ProgramTimeline> MakeTimelines(std::span<const graph::Program* const> programs,
                                           const MemoryPlan& plan, bool in_place = true);

}  // namespace plimsoll::memory
