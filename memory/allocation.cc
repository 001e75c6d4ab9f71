#include "memory/allocation.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/process_memory.h"

namespace plimsoll::memory {

std::unique_ptr<runtime::DeviceMemory> AllocateArenas(const PlannedPrograms& step,
                                                      runtime::Device& device) {
  const MemoryPlan& plan = step.plan;
  if (device.kind() == runtime::DeviceKind::kCpu) {
    CheckAvailable(plan.arena_bytes + plan.host_arena_bytes, "the plan");
  } else {
    CheckAvailable(plan.host_bytes(), "what the plan keeps on the host",
                   "keep more on the GPU (memory.weights, memory.gradients, optimizer.place, "
                   "checkpointing.offload), or set memory.host_budget for a plan within it");
  }
  return device.Allocate(plan.arena_bytes, plan.host_arena_bytes);
}

// Refuses an allocation that exceeds the available memory. The system would grant it, and later
// kill the process to take memory back.
void CheckAvailable(int64_t needed, std::string_view what, std::string_view way_out) {
  const int64_t available = runtime::AvailableMemory();
  if (needed <= available) return;
  throw UserError(fmt::format("{} needs {}, but this machine has {} of memory left; {} (see "
                              "plimsoll plan)",
                              what, FormatBytes(needed), FormatBytes(available), way_out),
                  ExitCode::kBudgetNotMet);
}

}  // namespace plimsoll::memory
