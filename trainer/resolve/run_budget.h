// Computes what memory.budget means on this machine.
//
// On the CPU the budget bounds exactly the bytes that a plan needs: both arenas. On a GPU it bounds
// all memory that the process takes there: the arena and the parts that memory/device_profile.h
// counts. memory.host_budget bounds the second arena, which holds tensors that are offloaded or
// placed on the host and the staging memory of inputs (MemoryPlan::host_bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memory/allocation.h"
#include "memory/cost.h"
#include "memory/plan.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The bytes that `size` means. "24GiB" is absolute; "90%" is a fraction of the machine's memory, or
// of the GPU's memory for memory.budget on a GPU; "free - 1GiB" counts from the memory that is free
// now. Throws a UserError that names `key` if no byte is left, or if there is no GPU to ask.
int64_t BytesOf(const config::MemorySize& size, const config::RunConfig& config,
                const std::string& key);
// memory.budget in bytes, for the complete process; if the GPU has less memory, all of its memory.
int64_t BudgetLine(const config::RunConfig& config);
// The part of memory.budget and memory.host_budget that is left for the arenas. Throws a UserError
// with ExitCode::kBudgetNotMet when the process without an arena takes more than memory.budget of
// the GPU.
memory::Budget BudgetOf(const config::RunConfig& config);

// The bytes that memory.budget leaves for this plan's arena on the device; nullopt without a
// budget.
std::optional<int64_t> ArenaBudget(const config::RunConfig& config, const memory::MemoryPlan& plan);

// The allocation that memory.allocator selects. Throws a UserError for settings that don't work
// with caching, and for caching on GPUs of more than one rank.
memory::Allocation AllocationFrom(const config::RunConfig& config, int64_t ranks);

// Throws a UserError when the file leaves a choice open and has no memory.budget to choose within.
void RequireBudget(const config::RunConfig& config);

// The memory limit of a plan, and the source of the limit. The limit bounds the bytes that a
// process may take on the device.
struct MemoryLine {
  std::string whose;  // "memory.budget", "NVIDIA H200", "90 % of NVIDIA H200", "this machine"
  int64_t bytes = 0;
  bool of_card = false;     // the limit is all memory of a GPU
  std::string beside = {};  // note on another limit: ", less than memory.budget (40.0 GiB)"

  bool Admits(int64_t process_bytes) const { return process_bytes <= bytes; }
  std::string Text() const;  // "memory.budget (24.0 GiB)"
};

// The limit is memory.budget, or the budget that TakeGpuAsBudget() has set. Without a budget, or if
// the GPU has less memory than the budget, the limit is the memory of the GPU for which the run is
// planned. Without a budget and a GPU, the limit is the memory of this machine.
MemoryLine MemoryLineOf(const config::RunConfig& config);

}  // namespace plimsoll::trainer
