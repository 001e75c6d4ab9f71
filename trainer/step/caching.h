// `memory.allocator: caching`: a run on the allocator that frameworks use, and what it would take
// beside the planned arena.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/caching_replay.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

struct CachingOptions {
  // Tensors share memory in place as the plan lets them (memory/caching_replay.h).
  bool in_place = true;
  int64_t preallocate_bytes = 0;  // in one segment; 0: grow from nothing
  int64_t empty_cache_every = 0;  // steps; 0: never
};

// The micro-steps of one step, then evaluation and generation where they were compiled.
std::vector<memory::ProgramRuns> Round(const CompiledStep& compiled);

// What the caching allocator takes for these programs, without running them.
memory::ReplayResult Replay(const CompiledStep& compiled, const CachingOptions& options = {});

std::vector<const graph::Program*> Programs(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
