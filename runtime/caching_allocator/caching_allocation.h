// `memory.allocator: caching`: runs programs with an allocator like those of frameworks, and
// computes the memory that it would take for the programs of a step.
//
// The replay applies the programs' sequence of allocations and frees to addresses without memory.
// It takes about as long as planning. Between two runs no temporary is alive and free blocks have
// merged, so a run affects later runs only by its segments. If a run or a round reserved no
// segment, repeating it changes nothing: repetitions are counted, not replayed.
#pragma once

#include <cstdint>

#include "memory/allocation.h"
#include "runtime/caching_allocator/caching_memory.h"

namespace plimsoll::runtime {

// The allocation for a session's programs.
memory::Allocation CachingAllocation(const CachingOptions& options);

struct ReplayResult {
  AllocatorStats device, host;
  int64_t rounds = 0;
  // Whether the last period reserved as many segments as the previous one, without a higher peak:
  // further rounds would change nothing. A period is the rounds between two calls of EmptyCache(),
  // or a single round if the cache is never emptied. False if none of twelve periods was like this.
  bool steady = false;
};

// Allocates persistent tensors first, then replays rounds.
ReplayResult Replay(const memory::PlannedPrograms& step, const CachingOptions& options = {});

}  // namespace plimsoll::runtime
