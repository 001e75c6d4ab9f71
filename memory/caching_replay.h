// What a framework's caching allocator would take for the programs of a step: the events of their
// schedule replayed on addresses without memory. Costs about as much as planning.
//
// Frameworks reuse less than the plan in two ways: their ops return new tensors where the plan lets
// an op write over its dying input, and their allocator decides without knowing what comes. The
// replay keeps the plan's buffers (`in_place`), so that the difference between the two arenas is
// the allocator's alone; in_place = false shows both effects together.
//
// Between two runs no temporary is alive and free blocks have merged, so that segments are all that
// a run leaves behind. Where a run or a round reserved none, its repetitions change nothing: they
// are counted and not replayed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "memory/plan.h"
#include "runtime/caching_memory.h"

namespace plimsoll::memory {

struct ReplayOptions {
  bool in_place = true;
  int64_t preallocate_bytes = 0;  // 0: grow from nothing
  int64_t empty_cache_every = 0;  // rounds; 0: never
  // Periods at most: the rounds between two clearings of the cache, or single rounds when it is
  // never cleared.
  int max_periods = 12;
};

struct ReplayResult {
  runtime::CachingStats device, host;
  int64_t rounds = 0;
  // The last period reserved as many segments as the one before and no peak rose: more rounds would
  // change nothing. False: max_periods came first.
  bool steady = false;
};

// Persistent tensors first, then rounds of runs: `round` names the programs, as indices, in the
// order in which they run: the micro-steps of a step, then the evaluation. `plan` is theirs.
ReplayResult ReplayCaching(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                           std::span<const ProgramRuns> round, const ReplayOptions& options = {});

// The memory of all programs, ready to run: persistent tensors allocated in the plan's order, then
// the programs added; `memories` receives what their executors use.
void FillCachingMemory(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                       bool in_place, runtime::CachingMemory& memory,
                       std::vector<runtime::TensorMemory*>& memories);

}  // namespace plimsoll::memory
