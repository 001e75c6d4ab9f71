// `plimsoll config --for MODEL`: makes a run file for a model on a device within a budget, with a
// reason for every choice. The file can be run unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda/gpu_report.h"

namespace plimsoll::trainer {

struct ConfigForCommand {
  std::string model;  // a run file, a Hugging Face folder, or the name of a file in configs/models
  // The device: "h200", "cpu" (trainer/resolve/known_gpus.h); empty means memory.device of a --set,
  // or this machine's.
  std::string device;
  // Value of memory.budget; empty means 90 % of the GPU's memory, or 80 % of the machine's memory.
  std::string budget;
  std::vector<std::string> sets = {};  // "key=value"; these keys are not chosen
  // Rank of adapters; 0 means no adapters, unless the model's file has adapters.
  int64_t lora_rank = 0;
};

// The run file for a name: the file with that name if it exists, otherwise
// configs/models/NAME.yaml, on disk or shipped with the program. If none exists, a UserError lists
// the known names.
std::string FindModelFile(const std::string& name);

// The text of the run file, which loads unchanged and has a plan within the budget. `gpus` are
// those of this machine. The device determines the precision. The model and the kind of training
// determine batch, steps and learning rate, unless the model's file has them. The budget's solver
// chooses micro-batch and policy by built-in rates. Prints warnings about `sets`. Throws a
// UserError with ExitCode::kBudgetNotMet if no plan fits.
std::string ConfigFor(const ConfigForCommand& command, const runtime::GpuReport& gpus);

}  // namespace plimsoll::trainer
