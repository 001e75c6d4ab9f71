// What memory.budget means on this machine.
//
// On the CPU the budget bounds both arenas, the bytes that a plan needs, exactly. On a GPU it
// bounds all memory that the process takes there: the arena and the parts that
// memory/device_profile.h counts. memory.host_budget bounds the second arena, for tensors that are
// offloaded or placed on the host, and what inputs pass through (MemoryPlan::host_bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memory/allocation.h"
#include "memory/cost.h"
#include "memory/plan.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The bytes of "24GiB"; of "90%" of the machine's memory, or of the GPU's for memory.budget on a
// GPU; or of "free - 1GiB", from the memory that is free now. UserError, naming `key`, when nothing
// is left, or when there is no GPU to ask.
int64_t BytesOf(const config::MemorySize& size, const config::RunConfig& config,
                const std::string& key);
// memory.budget in bytes, for the whole process; all memory of the GPU, where that has less.
int64_t BudgetLine(const config::RunConfig& config);
// The part of memory.budget and memory.host_budget that is left for the arenas. UserError with
// ExitCode::kBudgetNotMet when the process without an arena takes more than that of the GPU.
memory::Budget BudgetOf(const config::RunConfig& config);

// What memory.budget leaves for the device's arena of this plan; nothing without a budget.
std::optional<int64_t> ArenaBudget(const config::RunConfig& config, const memory::MemoryPlan& plan);

// As memory.allocator says. UserError on settings that don't work with caching, and on GPUs of more
// than one rank.
memory::Allocation AllocationFrom(const config::RunConfig& config, int64_t ranks);

// UserError when the file leaves a choice and has no memory.budget to choose within.
void RequireBudget(const config::RunConfig& config);

// The line that a plan has to stay under, and whose it is: the bytes that a process may take of
// the device.
struct MemoryLine {
  std::string whose;  // "memory.budget", "NVIDIA H200", "90 % of NVIDIA H200", "this machine"
  int64_t bytes = 0;
  bool of_card = false;     // all memory of a GPU
  std::string beside = {};  // ", less than memory.budget (40.0 GiB)"

  bool Admits(int64_t process_bytes) const { return process_bytes <= bytes; }
  std::string Text() const;  // "memory.budget (24.0 GiB)"
};

// memory.budget, or what is taken for it (TakeGpuAsBudget); without one, or where a GPU has less,
// the memory of the GPU that the run is planned for, or of this machine.
MemoryLine MemoryLineOf(const config::RunConfig& config);

}  // namespace plimsoll::trainer
