// `plimsoll config --for MODEL`: a run file for a model on a device within a budget, with a reason
// for every choice.
#pragma once

#include <string>
#include <vector>

#include "runtime/gpu_report.h"

namespace plimsoll::trainer {

struct StartingConfigCommand {
  std::string model;   // a run file, a Hugging Face folder, or the name of a file in configs/models
  std::string device;  // "h200", "cpu" (trainer/settle/known_gpus.h); empty: this machine's
  std::string budget;  // as memory.budget; empty: 90 % of the GPU's memory, 80 % of the machine's
};

// The file's text: it loads as it is, and its plan is within the budget. `gpus` are those of this
// machine. The device determines the precision; the model's size determines the global batch,
// unless the model's file has one; the budget solver chooses micro-batch and policy by its built-in
// rates. UserError with ExitCode::kBudgetNotMet when no plan fits.
std::string StartingConfig(const StartingConfigCommand& command, const runtime::GpuReport& gpus);

// The run file that a name stands for: the file of that name if there is one, else
// configs/models/NAME.yaml, on disk or as shipped with the program. UserError that lists the known
// names.
std::string FindModelFile(const std::string& name);

}  // namespace plimsoll::trainer
