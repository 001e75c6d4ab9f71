// `memory.allocator: caching`: running with the allocator that frameworks use, and the memory it
// would take compared with the planned arena.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/caching_replay.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

struct CachingOptions {
  // Results reuse their inputs' memory in place where the plan allows it (memory/caching_replay.h).
  bool in_place = true;
  int64_t preallocate_bytes = 0;  // in one segment; 0: grow from nothing
  int64_t empty_cache_every = 0;  // steps; 0: never
};

// The micro-steps of one step, then evaluation and generation where they were compiled.
std::vector<memory::ProgramRuns> Round(const CompiledStep& compiled);

// The memory that the caching allocator takes for these programs, without running them.
memory::ReplayResult Replay(const CompiledStep& compiled, const CachingOptions& options = {});

std::vector<const graph::Program*> Programs(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
