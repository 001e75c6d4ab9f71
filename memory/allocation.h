// How the programs of a step get their memory on a device: by default the arenas of their plan.
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
  // UserError when the machine lacks the memory. The programs, their plan and the device must
  // outlive the result.
  std::function<std::unique_ptr<runtime::DeviceMemory>(const PlannedPrograms&, runtime::Device&)>
      allocate = AllocateArenas;
  bool planned = true;  // what runtime::DeviceMemory::planned() will be
};

inline constexpr std::string_view kSmallerRun =
    "a smaller train.micro_batch, model.sequence or model needs less";
// UserError with ExitCode::kBudgetNotMet when this machine has less memory left. `way_out`: what
// needs less.
void CheckAvailable(int64_t needed, std::string_view what, std::string_view way_out = kSmallerRun);

}  // namespace plimsoll::memory
