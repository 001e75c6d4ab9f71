// `memory.allocator: caching`: running with an allocator as frameworks have, and how much memory it
// would take for the programs of a step.
//
// The replay plays the events of their schedule on addresses without memory. It costs about as much
// as planning. Between two runs no temporary is alive and free blocks have merged, so a run leaves
// only segments. If a run or a round reserved none, repeating it changes nothing: repetitions are
// counted, not replayed.
#pragma once

#include <cstdint>

#include "memory/allocation.h"
#include "runtime/caching_allocator/caching_memory.h"

namespace plimsoll::runtime {

// Of a session's programs.
memory::Allocation CachingAllocation(const CachingOptions& options);

struct ReplayResult {
  AllocatorStats device, host;
  int64_t rounds = 0;
  // The last period reserved as many segments as the one before and no peak rose: more rounds would
  // change nothing. A period is the rounds between two clearings of the cache, or a single round
  // when it is never cleared. False: this was not so within twelve periods.
  bool steady = false;
};

// Allocates persistent tensors first, then plays rounds.
ReplayResult Replay(const memory::PlannedPrograms& step, const CachingOptions& options = {});

}  // namespace plimsoll::runtime
