// Reports at the end of a run what it used its memory for: bytes by role and where each peaked,
// which op kinds and scopes hold the most at the peak and how much time they take, and what a
// caching allocator would have reserved compared with the arena.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "memory/caching_replay.h"
#include "memory/plan.h"

namespace plimsoll::memory {

struct RunFacts {
  std::span<const graph::Program* const> programs;  // as given to MakePlan
  const MemoryPlan& plan;
  // Seconds that a step spends in each node, by program and node; 0 for programs that a step
  // doesn't run. Empty: not measured.
  std::vector<std::vector<double>> node_seconds = {};
  bool by_time = false;  // order op kinds and scopes by time instead of by bytes
  // What a caching allocator takes for the same programs.
  std::optional<ReplayResult> caching = std::nullopt;
  bool used = false;  // the run used that allocator instead of the arena
};

// Several lines, without a newline at the end.
std::string RunSummary(const RunFacts& facts);

}  // namespace plimsoll::memory
