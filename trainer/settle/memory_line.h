// The line that a plan has to stay under, and whose it is.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The bytes that a process may take of the device.
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
