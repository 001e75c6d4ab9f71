// `plimsoll config --for MODEL`: a run file for a model on a device within a budget, every choice
// in it explained.
#pragma once

#include <string>
#include <vector>

#include "runtime/gpu_report.h"

namespace plimsoll::trainer {

struct StartingConfigCommand {
  std::string model;   // a run file, a Hugging Face folder, or the name of a file in configs/models
  std::string device;  // "h200", "cpu" (trainer/settle/known_gpus.h); empty: what is here
  std::string budget;  // as memory.budget; empty: 90 % of the GPU's memory, 80 % of the machine's
};

// The file's text: it loads as it is, and its plan is within the budget. `gpus` are those of this
// machine. Precision follows from what the device supports, the global batch, where the model's
// file has none, from the model's size, micro-batch and policy from the budget solver by its
// built-in rates. UserError with ExitCode::kBudgetNotMet when no plan fits.
std::string StartingConfig(const StartingConfigCommand& command, const runtime::GpuReport& gpus);

// The run file that a name stands for: itself where there is such a file, else
// configs/models/NAME.yaml, on disk or as it comes with the program. UserError that lists what
// there is.
std::string FindModelFile(const std::string& name);

}  // namespace plimsoll::trainer
