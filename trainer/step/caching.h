// `memory.allocator: caching`: running with the allocator that frameworks use, and the memory it
// would take compared with the planned arena.
#pragma once

#include <vector>

#include "memory/caching_replay.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

using memory::CachingOptions;  // a round is a step

// The micro-steps of one step, then evaluation and generation where they were compiled.
std::vector<memory::ProgramRuns> Round(const CompiledStep& compiled);

// The memory that the caching allocator takes for these programs, without running them.
memory::ReplayResult Replay(const CompiledStep& compiled, const CachingOptions& options = {});

std::vector<const graph::Program*> Programs(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
