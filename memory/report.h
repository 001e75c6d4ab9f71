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

// The rows of a plan's table of bytes by role, in order: each row is the sum of some roles.
struct RoleRow {
  std::string_view name;
  std::vector<graph::Role> roles;
};
const std::vector<RoleRow>& RoleRows();

// The report of a plan, in several lines: bytes by role, max live bytes, arena and fragmentation,
// and the tensors alive at the peak by role, by scope and by size.
std::string Report(const MemoryPlan& plan);

// The report of a plan in one line: "arena 1.20 GiB (max live 1.19 GiB, fragmentation 0.10 %), peak
// in program …".
std::string Summary(const MemoryPlan& plan);

struct MemoryFacts {
  std::span<const graph::Program* const> programs;  // the argument of MakePlan
  const MemoryPlan& plan;
  // Seconds that a step spends in each node, by program and node; 0 for programs that a step
  // doesn't run. Empty if times were not measured.
  std::vector<std::vector<double>> node_seconds = {};
  bool by_time = false;  // whether to order op kinds and scopes by time instead of by bytes
  // The memory that a caching allocator takes for the same programs.
  struct Caching {
    runtime::AllocatorStats device, host;
  };
  std::optional<Caching> caching = std::nullopt;
  bool used = false;  // whether the run used the caching allocator instead of the arena
};

// The report of a run, in several lines without a newline at the end: the bytes of each role and
// where they peaked; the op kinds and scopes that hold the most bytes at the peak, with their time;
// and the bytes that a caching allocator reserves, compared with the arena.
std::string RunSummary(const MemoryFacts& facts);

}  // namespace plimsoll::memory
