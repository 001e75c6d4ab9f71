// Allocates the memory of a step's programs on a device: by default the arenas of their plan.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "memory/plan.h"
#include "runtime/device.h"

namespace plimsoll::memory {

std::unique_ptr<runtime::DeviceMemory> AllocateArenas(const PlannedPrograms& step,
                                                      runtime::Device& device);

struct Allocation {
  // Throws UserError if the machine has too little memory. The programs, their plan and the device
  // must outlive the result.
  std::function<std::unique_ptr<runtime::DeviceMemory>(const PlannedPrograms&, runtime::Device&)>
      allocate = AllocateArenas;
  bool planned = true;  // what runtime::DeviceMemory::planned() of the result returns
};

inline constexpr std::string_view kSmallerRun =
    "a smaller train.micro_batch, model.sequence or model needs less";
// Throws UserError with ExitCode::kBudgetNotMet if less than `needed` bytes of this machine's
// memory are available. `way_out`: a sentence that suggests what needs less memory.
void CheckAvailable(int64_t needed, std::string_view what, std::string_view way_out = kSmallerRun);

}  // namespace plimsoll::memory
