// How much memory a framework's caching allocator would take for the programs of a step: replays
// the events of their schedule on addresses without memory. Costs about as much as planning.
//
// Frameworks reuse less memory than the plan for two reasons: their ops return new tensors where
// the plan lets an op write over its dying input, and their allocator decides without knowing later
// requests. The replay keeps the plan's buffers (`in_place`), so that the arenas differ only by the
// allocator; in_place = false shows both effects together.
//
// Between two runs no temporary is alive and free blocks have merged, so a run leaves only segments
// behind. If a run or a round reserved none, repeating it changes nothing: repetitions are counted,
// not replayed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "memory/plan.h"
#include "runtime/caching_allocator/allocation_schedule.h"
#include "runtime/caching_allocator/caching_memory.h"

namespace plimsoll::memory {

struct CachingOptions {
  bool in_place = true;           // as above
  int64_t preallocate_bytes = 0;  // in one segment; 0: grow from nothing
  int64_t empty_cache_every = 0;  // rounds; 0: never
};

struct ReplayResult {
  runtime::CachingStats device, host;
  int64_t rounds = 0;
  // The last period reserved as many segments as the one before and no peak rose: more rounds would
  // change nothing. A period is the rounds between two clearings of the cache, or a single round
  // when it is never cleared. False: this was not so within twelve periods.
  bool steady = false;
};

// Allocates persistent tensors first, then plays rounds. `round` gives the indices of the programs
// in the order in which they run: the micro-steps of a step, then the evaluation. `plan` is the
// plan of these programs.
ReplayResult ReplayCaching(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                           std::span<const ProgramRuns> round, const CachingOptions& options = {});

// The allocate and free events of a program. A buffer of its lifetimes is allocated before the
// first node that uses it, in the order in which that node names its buffers, and freed after the
// last. Inputs and metrics of the program always have memory.
runtime::AllocationSchedule MakeAllocationSchedule(const graph::Program& program,
                                                   bool in_place = true);

// Prepares the memory of all programs: allocates persistent tensors in the plan's order, then adds
// the programs. Returns what their executors use.
std::vector<runtime::TensorMemory*> FillCachingMemory(
    std::span<const graph::Program* const> programs, const MemoryPlan& plan, bool in_place,
    runtime::CachingMemory& memory);

}  // namespace plimsoll::memory
