// Accounts for this process's memory on a GPU: checked before anything is allocated, compared with
// the plan when the programs are ready, and watched during training. The driver's count
// (runtime/cuda/gpu_memory.h) is authoritative. On the CPU it does nothing.
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

// The process takes more GPU memory than memory.budget, although its plan was made to fit.
struct ProcessBeyondBudget : UserError {
  explicit ProcessBeyondBudget(const std::string& message)
      : UserError(message, ExitCode::kBudgetNotMet) {}
};

class GpuAccount {
 public:
  // Queries the GPU that the run will use.
  explicit GpuAccount(const config::RunConfig& config);

  // To be called before the arena is allocated. UserError with ExitCode::kBudgetNotMet when the GPU
  // has too little free memory for a process with this plan: names the free and the needed bytes,
  // and the processes that hold the rest.
  void CheckFree(const memory::MemoryPlan& plan) const;

  // To be called once all programs are ready. Returns the line for the log; warns on stderr when
  // the process takes more or less than planned by over 1 % and 100 MiB. Keeps the parts for later
  // plans. ProcessBeyondBudget when the process exceeds the budget: the parts are now known better,
  // so a new plan may fit.
  std::string StartUp(const memory::MemoryPlan& plan, const runtime::ProcessParts& parts);

  // Bytes that the process holds now; nothing on the CPU. Takes some tens of microseconds.
  std::optional<int64_t> bytes() const;
  // The highest of StartUp() and all Watch()es.
  int64_t highest_bytes() const { return highest_; }

  // To be called after step `step` (from 0 on). Warns when the process has grown since the third
  // step by over 1 MiB on the GPU, or by over 32 MiB of its own memory on the host; once for each
  // such growth.
  std::vector<std::string> Watch(int64_t step);

 private:
  const config::RunConfig& config_;
  memory::DeviceProfile profile_;
  std::optional<runtime::GpuMeter> meter_;
  int64_t highest_ = 0;
  // Bytes after the third step, raised by each warning.
  int64_t settled_ = 0, settled_host_ = 0;
};

// True if two counts in bytes differ by more than 1 % of the second, and by more than 100 MiB.
bool FarFromPlan(int64_t measured, int64_t planned);

// "the process grew by 2.00 MiB on the GPU to 8.21 GiB at step 17", when `now` is more than
// `allowed` above `settled`.
std::optional<std::string> GrowthText(int64_t step, int64_t settled, int64_t now, int64_t allowed,
                                      const std::string& where);

}  // namespace plimsoll::trainer
