// What a run used its memory for, told at its end: bytes by role and where each peaked, which op
// kinds and scopes hold the most at the peak and what time they take, and what a caching allocator
// would have reserved beside the arena.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "memory/plan.h"
#include "runtime/caching_allocator.h"

namespace plimsoll::memory {

struct CachingUse {
  runtime::CachingStats device, host;
};

struct RunFacts {
  std::span<const graph::Program* const> programs;  // as given to MakePlan
  const MemoryPlan& plan;
  // Seconds that a step spends in each node, by program and node: 0 where a step doesn't run it.
  // Empty: not measured.
  std::vector<std::vector<double>> node_seconds = {};
  bool by_time = false;  // order op kinds and scopes by time instead of by bytes
  // What a caching allocator takes for the same programs.
  std::optional<CachingUse> replayed = std::nullopt;
  // What it took: the run used it in place of the arena.
  std::optional<CachingUse> used = std::nullopt;
};

// Several lines, without a newline at the end.
std::string RunSummary(const RunFacts& facts);

}  // namespace plimsoll::memory
