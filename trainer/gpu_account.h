// The account of what this process holds of a GPU: checked before anything is allocated, compared
// with the plan when the programs are ready, and watched while training goes on. What the driver
// counts (runtime/gpu_memory.h) is the truth. On the CPU it does nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/device_profile.h"
#include "memory/plan.h"
#include "runtime/device.h"
#include "runtime/gpu_memory.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The process takes more of the GPU than memory.budget, although its plan was made to fit.
struct ProcessBeyondBudget : UserError {
  explicit ProcessBeyondBudget(const std::string& message)
      : UserError(message, ExitCode::kBudgetNotMet) {}
};

class GpuAccount {
 public:
  // Looks at the GPU that the run will use.
  explicit GpuAccount(const config::RunConfig& config);

  // UserError with ExitCode::kBudgetNotMet when the GPU has too little memory left for a process
  // with this plan: names what is free, what is needed and who holds the rest. Before the arena is
  // allocated.
  void CheckFree(const memory::MemoryPlan& plan) const;

  // Once all programs are ready: the line for the log, after a warning on stderr when the process
  // took more or less than planned by over 1 % and 100 MiB. Keeps the parts for later plans.
  // ProcessBeyondBudget when it is: the parts are known better now, so a new plan may fit.
  std::string StartUp(const memory::MemoryPlan& plan, const runtime::ProcessParts& parts);

  // What the process holds now; nothing on the CPU. Takes some tens of microseconds.
  std::optional<int64_t> bytes() const;
  // The highest of StartUp() and all Watch()es.
  int64_t highest_bytes() const { return highest_; }

  // After step `step` (from 0 on). Warnings when the process has grown since the third step by over
  // 1 MiB on the GPU, or by over 32 MiB of its own memory on the host; once for each such growth.
  std::vector<std::string> Watch(int64_t step);

 private:
  const config::RunConfig& config_;
  memory::DeviceProfile profile_;
  std::optional<runtime::GpuMeter> meter_;
  int64_t highest_ = 0;
  // After the third step, raised by each warning.
  int64_t settled_ = 0, settled_host_ = 0;
};

// Of two counts in bytes: do they differ by more than 1 % of the second, and 100 MiB?
bool FarFromPlan(int64_t measured, int64_t planned);

// "the process grew by 2.00 MiB on the GPU to 8.21 GiB at step 17", when `now` is more than
// `allowed` above `settled`.
std::optional<std::string> GrowthText(int64_t step, int64_t settled, int64_t now, int64_t allowed,
                                      const std::string& where);

}  // namespace plimsoll::trainer
