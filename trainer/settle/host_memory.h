// The memory of the hosts that ranks share: what all ranks of one host take together must be there
// before any of them takes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/device_kind.h"
#include "runtime/process_memory.h"
#include "runtime/ranks/world.h"

namespace plimsoll::trainer {

// Of one rank.
struct HostShare {
  int64_t leader = 0;  // the first rank of its host (runtime::World::host_leader)
  std::string host;    // its name
  int64_t bytes = 0;   // that this rank will take of its host's memory
  runtime::AvailableMemoryBytes available = {};
};

// Why the shares of all ranks, in their order, don't fit: the first host, or control group of a
// host, that lacks memory, with its ranks and their sum. Empty when all fit. A single rank of a
// host has a check of its own (Session). On a GPU the memory is pinned and memory.host_budget
// bounds it, on the CPU it is the plan's.
std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device);

// UserError with ExitCode::kBudgetNotMet on every rank when there is such a problem. All ranks
// call, before any of them allocates.
void RequireHostMemory(runtime::World& world, int64_t bytes, runtime::DeviceKind device,
                       const runtime::AvailableMemoryBytes& available);

}  // namespace plimsoll::trainer
