// Readable reports: of a memory plan, and of the memory used by a run, at its end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "memory/plan.h"
#include "runtime/allocator_stats.h"

namespace plimsoll::memory {

// The rows of a plan's table of bytes by role, in order: each is the sum of some roles.
struct RoleRow {
  std::string_view name;
  std::vector<graph::Role> roles;
};
const std::vector<RoleRow>& RoleRows();

// Several lines: bytes by role, max live, arena and fragmentation, the peak and the tensors alive
// there by role, by scope and by size.
std::string Report(const MemoryPlan& plan);

// One line: "arena 1.20 GiB (max live 1.19 GiB, fragmentation 0.10 %), peak in program …".
std::string Summary(const MemoryPlan& plan);

struct MemoryFacts {
  std::span<const graph::Program* const> programs;  // as given to MakePlan
  const MemoryPlan& plan;
  // Seconds that a step spends in each node, by program and node; 0 for programs that a step
  // doesn't run. Empty: not measured.
  std::vector<std::vector<double>> node_seconds = {};
  bool by_time = false;  // order op kinds and scopes by time instead of by bytes
  // The memory that a caching allocator would take for the same programs.
  struct Caching {
    runtime::AllocatorStats device, host;
  };
  std::optional<Caching> caching = std::nullopt;
  bool used = false;  // whether the run used that allocator instead of the arena
};

// Several lines, without a newline at the end: bytes by role and where each peaked, which op kinds
// and scopes hold the most at the peak and how much time they take, and what a caching allocator
// reserves compared with the arena.
std::string RunSummary(const MemoryFacts& facts);

}  // namespace plimsoll::memory
