// The answer of `plimsoll plan`, which its first lines give: does the plan fit, how fast is a step,
// what was chosen.
#pragma once

#include <cstdint>
#include <string>

#include "memory/cost_model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The bytes that a process may take, and whose they are.
struct MemoryLine {
  std::string whose;  // "memory.budget", "NVIDIA H200", "90 % of NVIDIA H200", "this machine"
  int64_t bytes = 0;

  bool Admits(int64_t process_bytes) const { return process_bytes <= bytes; }
  std::string Text() const;  // "memory.budget (24.0 GiB)"
};

// memory.budget, or what is taken for it (TakeGpuAsBudget); without one the memory of the GPU that
// the run is planned for, or of this machine.
MemoryLine MemoryLineOf(const config::RunConfig& config);

// The plan of a run whose step takes `seconds` by the rates of `cost`. `chosen` is what a solver
// chose (StepSolver::Describe); empty: nothing was open.
std::string Verdict(const config::RunConfig& config, const CompiledStep& compiled,
                    const memory::CostModel& cost, double seconds, const std::string& chosen);

}  // namespace plimsoll::trainer
