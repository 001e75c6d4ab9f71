// Accounts for this process's memory on a GPU. Free memory is checked before any allocation, the
// process's memory is compared with the plan when the programs are ready, and its growth is watched
// during training. All numbers are the driver's (runtime/cuda/gpu_memory.h). Does nothing on the
// CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/device_profile.h"
#include "memory/plan.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/device.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The error that the process takes more GPU memory than memory.budget, although its plan was made
// to fit.
struct ProcessBeyondBudget : UserError {
  explicit ProcessBeyondBudget(const std::string& message)
      : UserError(message, ExitCode::kBudgetNotMet) {}
};

class GpuAccount {
 public:
  // Queries the GPU that the run will use.
  explicit GpuAccount(const config::RunConfig& config);

  // Call this before the arena is allocated. Throws a UserError with ExitCode::kBudgetNotMet if the
  // GPU has too little free memory for a process with this plan. The error names the free bytes,
  // the needed bytes, and the processes that hold the rest of the memory.
  void CheckFree(const memory::MemoryPlan& plan) const;

  // Call this once all programs are ready. Returns the line for the log. Warns on stderr if the
  // process's bytes differ from the plan by over 1 % and 100 MiB. Keeps the measured parts for
  // later plans. Throws ProcessBeyondBudget if the process exceeds the budget; a new plan that uses
  // the measured parts may fit.
  std::string StartUp(const memory::MemoryPlan& plan, const runtime::ProcessParts& parts);

  // Bytes that the process holds now; nullopt on the CPU. Takes some tens of microseconds.
  std::optional<int64_t> bytes() const;
  // The largest number of bytes that StartUp() and Watch() have measured.
  int64_t highest_bytes() const { return highest_; }

  // Call this after step `step`, counted from 0. Returns warnings if the process has grown since
  // the third step by over 1 MiB on the GPU, or by over 32 MiB of its own memory on the host. Each
  // growth causes one warning.
  std::vector<std::string> Watch(int64_t step);

 private:
  const config::RunConfig& config_;
  memory::DeviceProfile profile_;
  std::optional<runtime::GpuMeter> meter_;
  int64_t highest_ = 0;
  // The process's bytes after the third step, or at the last warning.
  int64_t settled_ = 0, settled_host_ = 0;
};

// True if two counts in bytes differ by more than 1 % of the second, and by more than 100 MiB.
bool FarFromPlan(int64_t measured, int64_t planned);

// "the process grew by 2.00 MiB on the GPU to 8.21 GiB at step 17" if `now` exceeds `settled` by
// more than `allowed`; otherwise nullopt.
std::optional<std::string> GrowthText(int64_t step, int64_t settled, int64_t now, int64_t allowed,
                                      const std::string& where);

}  // namespace plimsoll::trainer
